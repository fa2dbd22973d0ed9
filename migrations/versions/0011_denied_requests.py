"""Denied requests"""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_KNOWN = (
    "cancelled",
    "decided",
    "denied",
    "expired",
    "extended",
    "key_created",
    "key_revoked",
    "refused",
    "retried",
    "superseded",
    "thread_deleted",
    "voted",
)


def upgrade() -> None:
    _know(_KNOWN)


def downgrade() -> None:
    _know(tuple(each for each in _KNOWN if each != "denied"), checks_old_rows=False)


def _know(actions: tuple[str, ...], *, checks_old_rows: bool = True) -> None:
    op.drop_constraint("action_is_known", "audit")
    listed = ", ".join(f"'{each}'" for each in actions)
    op.create_check_constraint(
        "action_is_known",
        "audit",
        f"action in ({listed})",
        postgresql_not_valid=not checks_old_rows,
    )
