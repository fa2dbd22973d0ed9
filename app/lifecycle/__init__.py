"""The use cases, and the only place that opens transactions.

    start ─► advance ─► (paused) ─► decide ─► advance ─► (ended)
                 └─ deliver: what was written to be told        expire: what nobody decided in time

Each takes the `Site`, one process's place in the service, and says in its errors what its caller is told.
"""
