"""Events of all threads in an order"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # In two steps: what is there already has no place, and the table is not written anew.
    op.execute("alter table events add column xid xid8")
    op.execute("alter table events alter column xid set default pg_current_xact_id()")
    op.create_index("events_in_order", "events", ["tenant", sa.text("xid")], unique=False)


def downgrade() -> None:
    op.drop_index("events_in_order", table_name="events")
    op.drop_column("events", "xid")
