"""What is asked of the audit is found by an index; two indexes that nothing needs are gone"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name, columns, where in (
        ("audit_by_person", ["tenant", "by", "at"], "by is not null"),
        ("audit_by_credential", ["tenant", "credential", "at"], "credential is not null"),
        ("audit_of_run", ["run_id"], "run_id is not null"),
        ("audit_of_pause", ["pause_id"], "pause_id is not null"),
    ):
        op.create_index(name, "audit", columns, postgresql_where=sa.text(where))
    op.drop_index("runs_by_id", "runs")
    op.drop_index("api_keys_by_name", "api_keys")


def downgrade() -> None:
    op.create_index("api_keys_by_name", "api_keys", ["tenant", "name"])
    op.create_index("runs_by_id", "runs", ["id"])
    for name in ("audit_by_person", "audit_by_credential", "audit_of_run", "audit_of_pause"):
        op.drop_index(name, "audit")
