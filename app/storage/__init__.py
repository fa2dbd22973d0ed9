"""The only place with SQL: database, embedded server, tables, one module a noun, checkpoints.

The hot path is one statement a phase: `runs.start`, `runs.claim`, `progress.write`, `pauses.decide`. Each
locks the thread's row first, and what it decides on stands in that row: a statement that waited for the
lock sees the row as it is by then, but everything else as it was before the wait.
"""
