"""What is open is listed, what is due is found and what can be told is taken without passing over the rest"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_DUE = "status = 'open' and expires_at is not null"
_LISTED = ("workflow", "channel", "kind")


def upgrade() -> None:
    for column in _LISTED:
        op.create_index(
            f"pauses_open_by_{column}",
            "pauses",
            ["tenant", column, "opened_at", "id"],
            postgresql_where=sa.text("status = 'open'"),
        )
    op.create_index(
        "pauses_open_escalated",
        "pauses",
        ["tenant", "escalated_to", "opened_at", "id"],
        postgresql_where=sa.text("status = 'open' and escalated_to is not null"),
    )
    op.drop_index("pauses_due", "pauses")
    op.create_index(
        "pauses_due",
        "pauses",
        ["expires_at"],
        postgresql_where=sa.text(f"{_DUE} and policy->>'on_expire' <> 'wait'"),
    )
    op.create_index(
        "deliveries_due_callbacks",
        "deliveries",
        ["address", "next_attempt_at"],
        postgresql_where=sa.text("status = 'pending' and channel is null"),
    )


def downgrade() -> None:
    op.drop_index("deliveries_due_callbacks", "deliveries")
    op.drop_index("pauses_due", "pauses")
    op.create_index("pauses_due", "pauses", ["expires_at"], postgresql_where=sa.text(_DUE))
    op.drop_index("pauses_open_escalated", "pauses")
    for column in _LISTED:
        op.drop_index(f"pauses_open_by_{column}", "pauses")
