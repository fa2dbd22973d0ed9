"""The API once more, in the form that LangGraph's SDK speaks, so that its clients work unchanged.

An assistant is a workflow, a thread a thread, a run a run, and an interrupt an open pause. Nothing here decides or
starts anything by itself: the same use cases do.
"""

from app.api.langgraph import assistants, runs, threads

ROUTERS = (assistants.router, threads.router, runs.router)
