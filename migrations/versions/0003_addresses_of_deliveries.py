"""Addresses of deliveries"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_HOSTS = """
update runs set callback_host = lower(substring(callback->>'url' from '^[a-z]+://([^/?#]*)'))
where callback is not null
"""
_ADDRESSES = """
update deliveries d set address = coalesce(d.channel, r.callback_host, '')
from runs r where r.thread_id = d.thread_id and r.id = d.run_id
"""


def upgrade() -> None:
    op.add_column("runs", sa.Column("callback_host", sa.Text(), nullable=True))
    op.execute(_HOSTS)
    op.add_column("deliveries", sa.Column("address", sa.Text(), nullable=True))
    op.execute(_ADDRESSES)
    op.alter_column("deliveries", "address", nullable=False)
    op.drop_index("deliveries_due", table_name="deliveries")
    op.create_index(
        "deliveries_due",
        "deliveries",
        ["address", "next_attempt_at"],
        unique=False,
        postgresql_where=sa.text("status = 'pending'"),
    )


def downgrade() -> None:
    op.drop_index("deliveries_due", table_name="deliveries")
    op.create_index(
        "deliveries_due",
        "deliveries",
        ["next_attempt_at"],
        unique=False,
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.drop_column("deliveries", "address")
    op.drop_column("runs", "callback_host")
