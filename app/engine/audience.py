"""Those who listen to the models of a run.

What they hear is forgotten: nothing of it is stored, and a run comes out the same whether anybody listens or
not.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Delta:
    """The next piece of the text that an agent's model is writing in one of its turns.

    `offset` is where the piece begins, in characters. At 0 the text begins, maybe not for the first time:
    what was heard of this turn before a broken connection or a crash does not count.
    """

    path: str
    agent: str
    turn: int
    offset: int
    text: str


class Audience(Protocol):
    """Who listens to the models of a run. Asked at each turn; must be quick, and must not raise."""

    @property
    def listens(self) -> bool:
        """Whether anybody does at this moment. Where nobody does, the model is asked for whole answers."""
        ...

    def hear(self, delta: Delta) -> None:
        """Takes the next piece."""
        ...
