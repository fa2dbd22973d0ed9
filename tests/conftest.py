"""What all tests may ask for: a Postgres that the whole session shares."""

from tests.session_postgres import (
    cluster,
    database_url,
    empty_database_url,
    pytest_configure_node,
)

__all__ = ["cluster", "database_url", "empty_database_url", "pytest_configure_node"]
