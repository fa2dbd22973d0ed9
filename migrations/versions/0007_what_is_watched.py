"""What is watched"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_OPEN = {"unique": False, "postgresql_where": sa.text("status = 'open'")}


def upgrade() -> None:
    op.drop_index("pauses_open", table_name="pauses")
    op.create_index(
        "pauses_open",
        "pauses",
        ["tenant", "opened_at", "id"],
        postgresql_include=["workflow"],
        **_OPEN,
    )
    op.create_index(
        "deliveries_dead",
        "deliveries",
        ["tenant", "created_at", "id"],
        unique=False,
        postgresql_where=sa.text("status = 'dead'"),
    )


def downgrade() -> None:
    op.drop_index("deliveries_dead", table_name="deliveries")
    op.drop_index("pauses_open", table_name="pauses")
    op.create_index("pauses_open", "pauses", ["tenant", "opened_at", "id"], **_OPEN)
