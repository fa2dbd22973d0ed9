"""Traces of runs"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("trace", postgresql.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("runs", "trace")
