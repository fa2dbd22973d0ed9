"""Random workflows as plain data, each grown from a number; and what their functions do.

Texts are short and tell everything that went into them, so two ways to the same output are the same way.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, TypeAlias

import orjson

MOST_NODES = 14
DEEPEST = 4
OPTIONS = ["red", "green", "blue"]

OnReject: TypeAlias = Literal["cancel", "skip", "fail", "else", "retry"]


@dataclass(frozen=True, kw_only=True)
class Gate:
    """An ask. `text` is what it says, and its name; `looks` whether a review looks at the output first."""

    kind: Literal["confirm", "input", "choose", "review", "error"]
    text: str
    on_reject: OnReject = "skip"
    most: int = 1
    looks: bool = False


@dataclass(frozen=True, kw_only=True)
class Grown:
    """A step. Its name is its own in the whole workflow."""

    name: str
    before: tuple[Gate, ...] = ()
    after: Gate | None = None


@dataclass(frozen=True, kw_only=True)
class GrownFunction(Grown):
    """`fails` where its inputs happen to say so; then `error` says what becomes of it, or it is left out."""

    fails: bool = False
    error: Gate | Literal["fail", "skip"] = "fail"


@dataclass(frozen=True, kw_only=True)
class GrownTool:
    name: str
    kind: Literal["plain", "gated", "asks", "gated asks", "fills"]


@dataclass(frozen=True, kw_only=True)
class GrownAgent(Grown):
    tools: tuple[GrownTool, ...]


@dataclass(frozen=True, kw_only=True)
class GrownSteps(Grown):
    steps: "tuple[Grown, ...]"
    is_workflow: bool = False


@dataclass(frozen=True, kw_only=True)
class GrownCondition(Grown):
    looks: bool
    then: "tuple[Grown, ...]"
    otherwise: "tuple[Grown, ...]"


@dataclass(frozen=True, kw_only=True)
class GrownRouter(Grown):
    """A person chooses, if there is a gate for it; else a model or a function does.

    `after_decision` is the choice that is taken unasked of a model.
    """

    choices: "tuple[Grown, ...]"
    choose: Gate | None
    has_model: bool
    after_decision: str | None


@dataclass(frozen=True, kw_only=True)
class GrownLoop(Grown):
    steps: "tuple[Grown, ...]"
    most: int
    looks: bool
    each: Gate | None


@dataclass(frozen=True, kw_only=True)
class GrownFork(Grown):
    """Branches; what they give is made one text by the step that always follows a fork."""

    branches: "tuple[Grown, ...]"


class _Growing:
    """One workflow while it grows."""

    def __init__(self, number: int) -> None:
        self._random = Random(number)
        self._left = MOST_NODES
        self._names = 0

    def sequence(self, depth: int, most: int = 3) -> tuple[Grown, ...]:
        steps = [self.step(depth) for _ in range(self._random.randint(1, most))]
        return tuple(part for step in steps for part in self._joined(step))

    def _joined(self, step: Grown) -> tuple[Grown, ...]:
        if isinstance(step, GrownFork):
            return step, GrownFunction(name=self._name())
        return (step,)

    def step(self, depth: int) -> Grown:
        self._left -= 1
        makers: list[Callable[[int], Grown]] = [self._function, self._function, self._agent]
        if depth < DEEPEST and self._left > 0:
            makers += [
                self._steps, self._condition, self._router, self._loop, self._fork, self._fork,
            ]  # fmt: skip
        return self._random.choice(makers)(depth)

    def alone(self, depth: int) -> Grown:
        """A step that stands by itself: a fork only with what follows it."""
        step = self.step(depth)
        if not isinstance(step, GrownFork):
            return step
        return GrownSteps(name=self._name(), steps=self._joined(step))

    def _function(self, depth: int) -> Grown:
        fails = self._chance(0.25)
        error: Any = self._random.choice(
            ["skip", self._gate("error", most=self._random.randint(1, 2))]
        )
        return GrownFunction(
            name=self._name(),
            before=self._before(inputs=True),
            after=self._review(),
            fails=fails,
            error=error if fails else "fail",
        )

    def _agent(self, depth: int) -> Grown:
        kinds: list[Any] = ["plain", "gated", "gated", "asks", "gated asks", "fills"]
        tools = [
            GrownTool(name=self._name("t"), kind=self._random.choice(kinds))
            for _ in range(self._random.randint(1, 2))
        ]
        return GrownAgent(
            name=self._name(),
            before=self._before(inputs=True),
            after=self._review(),
            tools=tuple(tools),
        )

    def _steps(self, depth: int) -> Grown:
        return GrownSteps(
            name=self._name(),
            before=self._before(),
            after=self._review(),
            steps=self.sequence(depth + 1),
            is_workflow=self._chance(0.4),
        )

    def _condition(self, depth: int) -> Grown:
        then, otherwise = self.sequence(depth + 1, 2), self.sequence(depth + 1, 2)
        looks = self._chance(0.6)
        means: list[OnReject] = ["else", "skip"] if looks else ["else"]
        gated = not looks or self._chance(0.4)
        gate = self._gate("confirm", on_reject=self._random.choice(means))
        return GrownCondition(
            name=self._name(),
            before=(gate,) if gated else (),
            after=self._review(),
            looks=looks,
            then=then,
            otherwise=otherwise,
        )

    def _router(self, depth: int) -> Grown:
        choices = tuple(self.alone(depth + 1) for _ in range(self._random.randint(2, 3)))
        choose = self._gate("choose", most=self._random.choice([1, 3]), on_reject=self._rejects())
        return GrownRouter(
            name=self._name(),
            before=self._before(),
            after=self._review(),
            choices=choices,
            choose=choose if self._chance(0.5) else None,
            has_model=self._chance(0.5),
            after_decision=choices[0].name if self._chance(0.7) else None,
        )

    def _loop(self, depth: int) -> Grown:
        # A loop's own bound is its iterations.
        each = self._gate("review", on_reject="retry", most=3) if self._chance(0.5) else None
        return GrownLoop(
            name=self._name(),
            before=self._before(),
            after=self._review(),
            steps=self.sequence(depth + 1, 2),
            most=self._random.randint(1, 3),
            looks=self._chance(0.5),
            each=each,
        )

    def _fork(self, depth: int) -> Grown:
        branches = tuple(self.alone(depth + 1) for _ in range(self._random.randint(2, 3)))
        return GrownFork(
            name=self._name(), before=self._before(), after=self._review(), branches=branches
        )

    def _before(self, *, inputs: bool = False) -> tuple[Gate, ...]:
        gates: list[Gate] = []
        if self._chance(0.3):
            gates.append(self._gate("confirm", on_reject=self._rejects()))
        if inputs and self._chance(0.2):
            gates.append(self._gate("input", on_reject=self._rejects()))
        return tuple(gates)

    def _review(self) -> Gate | None:
        if not self._chance(0.25):
            return None
        return self._gate(
            "review",
            on_reject=self._random.choice(["retry", "retry", self._rejects()]),
            most=self._random.randint(1, 2),
            looks=self._chance(0.3),
        )

    def _rejects(self) -> Any:
        return self._random.choices(["skip", "cancel", "fail"], [18, 1, 1])[0]

    def _gate(self, kind: Any, **options: Any) -> Gate:
        return Gate(kind=kind, text=self._name("g"), **options)

    def _name(self, letter: str = "s") -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def _chance(self, of_one: float) -> bool:
        return self._random.random() < of_one


def grown(number: int) -> tuple[Grown, ...]:
    """The steps of a number."""
    return _Growing(number).sequence(0, 4)


# ── What their functions do ──────────────────────────────────────────────────────────────────────


def marked(name: str, *parts: object) -> str:
    """A short text that tells its maker and everything that went into it."""
    return f"{name}:{zlib.crc32('|'.join(flat(each) for each in parts).encode()):08x}"


def flat(value: object) -> str:
    """Any value as a text."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def is_even(value: object) -> bool:
    """What every look at a value says."""
    return zlib.crc32(flat(value).encode()) % 2 == 0


def ways(value: str, names: list[str]) -> list[str]:
    """Which way a function selects."""
    number = zlib.crc32(value.encode())
    first = number % len(names)
    return names[first:] + names[:first] if number % 3 == 0 else [names[first]]


def answer_of(name: str, work: str, results: Sequence[str]) -> str:
    """What an agent answers after its calls."""
    return marked(name, work, *results)


def moment(made: str) -> float:
    """How many seconds it takes to make a text: some, so that a kill finds work under way."""
    return (zlib.crc32(made.encode()) % 7) * 0.004
