"""What a section has found, as a table, and how it is written."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under their heads."""

    title: str
    head: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list[Sequence[str]])

    def written(self) -> str:
        """As Markdown."""
        lines = [f"### {self.title}", "", _line(self.head), _line(["---"] * len(self.head))]
        return "\n".join([*lines, *(_line(row) for row in self.rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


def kilobytes(size: float) -> str:
    return f"{size / 1000:.1f}"


def megabytes(size: float) -> str:
    return f"{size / 1_000_000:.1f}"


def ratio(one: float, other: float) -> str:
    return f"{one / other:.2f}"
