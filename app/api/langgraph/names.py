"""What workflows are called where they are assistants: by their name, or by an id that is made of it."""

from typing import Final
from uuid import UUID, uuid5

from app.errors import NotFound
from app.lifecycle import read
from app.lifecycle.site import Site

_OF_GRAPHS: Final = UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
"""LangGraph's own server makes its ids of graphs' names in this namespace; so a graph that moves here keeps its id."""


class UnknownAssistant(NotFound):
    """No workflow of that name or id is served here."""


def assistant_id(workflow: str) -> str:
    """The id of a workflow as an assistant, always the same."""
    return str(uuid5(_OF_GRAPHS, workflow))


def workflow_of(site: Site, assistant: str) -> str:
    """The workflow that is meant by a name or an id. Raises `UnknownAssistant`."""
    for each in read.workflows(site):
        if assistant in (each["name"], assistant_id(each["name"])):
            return each["name"]
    raise UnknownAssistant("There is no workflow of that name or id here.")
