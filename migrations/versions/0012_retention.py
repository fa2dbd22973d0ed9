"""What is forgotten of runs that ended long ago"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("forgotten_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "runs_to_forget",
        "runs",
        ["finished_at"],
        postgresql_where=sa.text("finished_at is not null and forgotten_at is null"),
    )


def downgrade() -> None:
    op.drop_index("runs_to_forget", "runs")
    op.drop_column("runs", "forgotten_at")
