"""The page about scaling, held to the tables and to the statements."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Table, UniqueConstraint

from app.storage.tables import metadata

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scaling.md").read_text()
STATEMENTS = "\n".join(
    path.read_text().lower()
    for folder in ("app/storage", "migrations/versions")
    for path in sorted((ROOT / folder).glob("*.py"))
)
FEATURES = PAGE.partition("<!-- features:")[2].partition("| engine |")[0]
DISTRIBUTED = dict(re.findall(r"create_distributed_table\('(\w+)', '(\w+)'", PAGE))
ON_EVERY_NODE = re.findall(r"create_reference_table\('(\w+)'\)", PAGE)


def test_the_page_says_of_every_table_where_it_would_be() -> None:
    assert sorted([*DISTRIBUTED, *ON_EVERY_NODE]) == sorted(metadata.tables)


def test_what_is_distributed_has_its_column_in_its_key_and_what_it_refers_to_beside_it() -> None:
    for name, column in DISTRIBUTED.items():
        table = metadata.tables[name]
        assert column in table.primary_key.columns, name
        for constraint in table.foreign_key_constraints:
            assert column in constraint.column_keys, name
            assert constraint.referred_table.name in DISTRIBUTED, name


def test_rules_that_more_than_one_node_would_lose_are_named() -> None:
    lost = [
        name
        for table, column in DISTRIBUTED.items()
        for name, columns in _unique(metadata.tables[table])
        if column not in columns
    ]
    assert lost, "else the page has a row too many"
    assert [name for name in lost if f"`{name}`" not in PAGE] == []


def _unique(table: Table[Any]) -> Iterator[tuple[str, list[str]]]:
    for constraint in table.constraints:
        if isinstance(constraint, UniqueConstraint):
            yield str(constraint.name), [column.name for column in constraint.columns]
    for index in table.indexes:
        if index.unique:
            yield str(index.name), [column.name for column in index.columns]


def test_every_feature_of_postgres_on_the_page_is_in_use() -> None:
    first = [row.split("|")[1] for row in FEATURES.splitlines() if row.startswith("| ")]
    named = [each.lower() for cell in first for each in re.findall(r"`([^`]+)`", cell)]
    assert len(named) > 10
    assert [each for each in named if each not in STATEMENTS] == []


def test_every_function_of_postgres_itself_that_is_in_use_is_on_the_page() -> None:
    used = set(re.findall(r"\b(pg_\w+)\(", STATEMENTS))
    assert {each for each in used if f"`{each}`" not in FEATURES} == {"pg_column_size"}
