"""Votes and reminders"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# Pauses that are open already are reminded of as their asks say, too.
_ARM = """
update pauses
set remind_at = expires_at - make_interval(secs => (policy->>'remind_before')::float8),
    escalate_at = expires_at - make_interval(secs => (policy->>'escalate_before')::float8)
where status = 'open' and expires_at is not null
"""


def upgrade() -> None:
    op.add_column("pauses", sa.Column("remind_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("pauses", sa.Column("escalate_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("pauses", sa.Column("escalated_to", sa.Text(), nullable=True))
    op.add_column(
        "pauses", sa.Column("votes", JSONB(), server_default=sa.text("'[]'"), nullable=False)
    )
    op.create_index(
        "pauses_to_remind",
        "pauses",
        ["remind_at"],
        unique=False,
        postgresql_where=sa.text("status = 'open' and remind_at is not null"),
    )
    op.create_index(
        "pauses_to_escalate",
        "pauses",
        ["escalate_at"],
        unique=False,
        postgresql_where=sa.text("status = 'open' and escalate_at is not null"),
    )
    op.execute(_ARM)


def downgrade() -> None:
    op.drop_index("pauses_to_escalate", table_name="pauses")
    op.drop_index("pauses_to_remind", table_name="pauses")
    op.drop_column("pauses", "votes")
    op.drop_column("pauses", "escalated_to")
    op.drop_column("pauses", "escalate_at")
    op.drop_column("pauses", "remind_at")
