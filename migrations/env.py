"""Runs the migrations on the connection that `app.storage.migrate` hands over."""

from alembic import context

from app.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
