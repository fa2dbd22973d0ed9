"""Audit chains"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

# Numbered anew, as there may be gaps, and linked as they stand.
_LINK = """
do $link$
declare
  w audit%rowtype;
  head bytea;
  n bigint;
  chain text;
begin
  for w in select * from audit order by thread_id, tenant, thread_created_at, sequence loop
    if chain is distinct from concat_ws('/', w.tenant, w.thread_id, w.thread_created_at) then
      chain := concat_ws('/', w.tenant, w.thread_id, w.thread_created_at);
      head := '';
      n := 0;
    end if;
    n := n + 1;
    update audit a set sequence = n
    where a.thread_id = w.thread_id and a.tenant = w.tenant and a.thread_created_at = w.thread_created_at
      and a.sequence = w.sequence;
    w.sequence := n;
    head := sha256(head || convert_to({text}, 'UTF8'));
    update audit a set hash = head
    where a.thread_id = w.thread_id and a.tenant = w.tenant and a.thread_created_at = w.thread_created_at
      and a.sequence = n;
    update threads t set audit_sequence = n, audit_head = head
    where t.id = w.thread_id and t.tenant = w.tenant;
  end loop;
end
$link$
"""
_FIELDS = (
    "tenant",
    "thread_id",
    "(extract(epoch from w.thread_created_at) * 1000000)::bigint",
    "sequence",
    "(extract(epoch from w.at) * 1000000)::bigint",
    "action",
    "run_id",
    "pause_id",
    "by",
    "via",
    "credential",
    "client",
    "request_id",
    "digest",
    "data",
)


def _item(field: str) -> str:
    text = f"{field}::text" if field.startswith("(") else f'w."{field}"::text'
    return f"coalesce(length({text}) || ':' || {text}, '-')"


def upgrade() -> None:
    op.create_table(
        "audit_heads",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("head", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("tenant"),
    )
    op.add_column("threads", sa.Column("audit_head", sa.LargeBinary(), nullable=True))
    op.add_column("audit", sa.Column("thread_created_at", sa.DateTime(timezone=True)))
    for name in ("credential", "client", "request_id", "digest"):
        op.add_column("audit", sa.Column(name, sa.Text(), nullable=True))
    op.add_column("audit", sa.Column("hash", sa.LargeBinary(), nullable=True))
    op.alter_column("audit", "run_id", nullable=True)
    op.alter_column("audit", "pause_id", nullable=True)
    op.execute(
        "update audit a set thread_created_at = t.created_at from threads t "
        "where t.id = a.thread_id and t.tenant = a.tenant"
    )
    op.drop_constraint("audit_pkey", "audit", type_="primary")
    op.create_primary_key(
        "audit_pkey", "audit", ["thread_id", "tenant", "thread_created_at", "sequence"]
    )
    op.execute(_LINK.format(text=" || ".join(_item(field) for field in _FIELDS)))
    op.alter_column("audit", "hash", nullable=False)
    op.create_check_constraint("action_is_known", "audit", _KNOWN)
    op.create_index("audit_by_time", "audit", ["tenant", "at"], unique=False)


_KNOWN = (
    "action in ('cancelled', 'decided', 'expired', 'extended', 'key_created', 'key_revoked', "
    "'refused', 'retried', 'superseded', 'thread_deleted', 'voted')"
)


def downgrade() -> None:
    op.drop_index("audit_by_time", table_name="audit")
    op.drop_constraint("action_is_known", "audit", type_="check")
    op.drop_constraint("audit_pkey", "audit", type_="primary")
    op.execute(
        "delete from audit a where not exists (select from threads t where t.id = a.thread_id "
        "and t.tenant = a.tenant and t.created_at = a.thread_created_at) or a.pause_id is null"
    )
    op.create_primary_key("audit_pkey", "audit", ["thread_id", "tenant", "sequence"])
    op.alter_column("audit", "pause_id", nullable=False)
    op.alter_column("audit", "run_id", nullable=False)
    for name in ("hash", "digest", "request_id", "client", "credential", "thread_created_at"):
        op.drop_column("audit", name)
    op.drop_column("threads", "audit_head")
    op.drop_table("audit_heads")
