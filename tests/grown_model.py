"""What steps, gates and agents mean, in plain Python: a model that is held against the service.

It knows nothing of graphs, checkpoints and lines. It follows a grown workflow step by step, asks an oracle
where a person would be asked, and keeps what was asked and what ran.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeAlias, cast

import orjson

from tests.workflows.growth import (
    OPTIONS,
    Gate,
    Grown,
    GrownAgent,
    GrownCondition,
    GrownFork,
    GrownFunction,
    GrownLoop,
    GrownRouter,
    GrownSteps,
    GrownTool,
    answer_of,
    flat,
    grown,
    is_even,
    marked,
    ways,
)

BY = "maria"
Key: TypeAlias = tuple[str, str, str]
"""A question: the place of its step, its kind, and its message or the tool that it is about."""
Decision: TypeAlias = dict[str, Any]


def decision_of(number: int, key: Key, allowed: Sequence[str] = (), most: int = 1) -> Decision:
    """What the person says who decides everything in the run of a number: always the same to one question.

    `allowed` are the names or actions that there are, of which `most` may be chosen.
    """
    random = Random(f"{number} {key}")
    feedback = random.choice([{}, {"feedback": f"because {random.randint(1, 9)}"}])
    place, kind, _ = key
    match kind:
        case "confirmation":
            return {"approved": random.random() < 0.7, **feedback}
        case "input":
            word = {"word": f"w{random.randint(1, 9)}"}
            return {"value": word} if random.random() < 0.8 else {"approved": False, **feedback}
        case "interactive":
            colour = {"value": random.choice(OPTIONS)}
            return colour if random.random() < 0.8 else {"approved": False, **feedback}
        case "route":
            if random.random() < 0.2:
                return {"approved": False, **feedback}
            count = min(most, len(allowed)) if random.random() < 0.5 else 1
            return {"value": random.sample(list(allowed), count)}
        case "review":
            return _reviewed(random, feedback, place)
        case "error":
            weights = [1 if each == "fail" else 8 for each in allowed]
            return {"action": random.choices(list(allowed), weights)[0]}
        case _:
            return _approved(random, feedback)


def _reviewed(random: Random, feedback: Decision, place: str) -> Decision:
    chance = random.random()
    if chance < 0.45:
        return {"approved": True}
    if chance < 0.6:
        return {"approved": True, "override_output": f"mine {random.randint(1, 99)}"}
    return {"approved": False, **feedback}


def _approved(random: Random, feedback: Decision) -> Decision:
    chance = random.random()
    if chance < 0.5:
        return {"approved": True, **feedback}
    if chance < 0.7:
        return {"approved": True, "override_arguments": {"body": f"edited {random.randint(1, 99)}"}}
    return {"approved": False, **feedback}


class _Ended(Exception):
    """The run ends: one of these statuses, where it depends on who is first."""

    def __init__(self, *statuses: str) -> None:
        super().__init__(*statuses)
        self.statuses = frozenset(statuses)


class _Broke(Exception):
    """A function raised."""


@dataclass(frozen=True, kw_only=True)
class _Remark:
    """What was said last about an output, and that output."""

    feedback: str | None
    previous: object


@dataclass(frozen=True, kw_only=True)
class _At:
    """Where a step stands: its row, its attempt, its iteration, and what was said about it or around it."""

    row: str
    attempt: int = 0
    iteration: int | None = None
    remark: _Remark | None = None

    @property
    def place(self) -> str:
        iteration = "" if self.iteration is None else f"[{self.iteration}]"
        return f"{self.row}{iteration}" + (f"~{self.attempt}" if self.attempt else "")

    def inside(self, name: str) -> "_At":
        return _At(row=f"{self.place}/{name}", remark=self.remark)


@dataclass(kw_only=True)
class Followed:
    """What the model says of a run. Where it `depends`, on which branch ends the run first, these are the most."""

    asked: list[Key] = field(default_factory=list[Key])
    ran: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """What functions and tools did: by whose row, and what they noted."""
    statuses: frozenset[str] = frozenset({"completed"})
    output: object = None
    depends: bool = False


def follow(number: int, text: str) -> Followed:
    """The run of a number with a text, from its beginning to its end."""
    followed = Followed()
    model = _Model(number, followed)
    try:
        followed.output = model.sequence(grown(number), text, _At(row=f"grown_{number}"))
    except _Ended as end:
        followed.statuses = end.statuses
    return followed


class _Model:
    def __init__(self, number: int, followed: Followed) -> None:
        self._number = number
        self._followed = followed
        self._was_decided = (
            False  # whether an approval was, since a model was last asked for the way
        )

    def sequence(self, steps: Sequence[Grown], value: Any, around: _At) -> Any:
        for step in steps:
            value = self.step(step, value, around.inside(step.name))
        return value

    def step(self, step: Grown, value: Any, at: _At) -> Any:
        """What comes out of a step, with its gates; what it was given where it is left out."""
        output = self._gated(step, value, at)
        return value if output is _LEFT_OUT else output

    def _gated(self, step: Grown, value: Any, at: _At) -> Any:
        if isinstance(step, GrownLoop):
            at = replace(at, iteration=0)
        words: list[str] = []
        way: Sequence[Grown] | None = None
        for gate in step.before:
            said = self._ask(gate, at)
            if "value" in said:
                words.append(said["value"]["word"])
            elif not said["approved"] and gate.on_reject == "else":
                way = cast("GrownCondition", step).otherwise
            elif not said["approved"]:
                return _left_out(gate)
        return self._until_good(step, value, at, words, way)

    def _until_good(
        self, step: Grown, value: Any, at: _At, words: list[str], way: Sequence[Grown] | None
    ) -> Any:
        tries = _Tries()
        while True:
            output, at = self._attempt(step, value, at, words, way, tries)
            if output is not _AGAIN:
                return output

    def _attempt(
        self,
        step: Grown,
        value: Any,
        at: _At,
        words: list[str],
        way: Sequence[Grown] | None,
        tries: "_Tries",
    ) -> tuple[Any, _At]:
        """What comes out, or that it is left out or made again; and where it stands then."""
        try:
            if way is not None:
                output = self.sequence(way, value, at)
            else:
                output, at = self._body(step, value, at, words)
        except _Broke:
            return self._broken(cast("GrownFunction", step), at, tries)
        gate = step.after
        if gate is None or output is _LEFT_OUT or (gate.looks and not is_even(output)):
            return output, at
        said = self._ask(gate, at, is_fork=isinstance(step, GrownFork))
        if said["approved"]:
            return said.get("override_output", output), at
        return self._rejected(step, gate, output, at, said, tries)

    def _rejected(
        self, step: Grown, gate: Gate, output: Any, at: _At, said: Decision, tries: "_Tries"
    ) -> tuple[Any, _At]:
        if gate.on_reject != "retry":
            return _left_out(gate), at
        if tries.reviews >= gate.most:
            raise _Ended("cancelled")
        tries.reviews += 1
        remark = _Remark(feedback=said.get("feedback"), previous=output)
        iteration = 0 if isinstance(step, GrownLoop) else None
        return _AGAIN, replace(at, attempt=at.attempt + 1, iteration=iteration, remark=remark)

    def _broken(self, step: GrownFunction, at: _At, tries: "_Tries") -> tuple[Any, _At]:
        """It is tried again, left out, or ends the run."""
        error = step.error
        if error == "fail":
            raise _Ended("failed")
        if isinstance(error, str):
            return _LEFT_OUT, at
        options = [*(["retry"] if tries.errors < error.most else []), "skip", "fail"]
        match self._ask(error, at, options)["action"]:
            case "retry":
                tries.errors += 1
                return _AGAIN, replace(at, attempt=at.attempt + 1)
            case "skip":
                return _LEFT_OUT, at
            case _:
                raise _Ended("failed")

    # ── What steps do ────────────────────────────────────────────────────────────────────────────

    def _body(self, step: Grown, value: Any, at: _At, words: list[str]) -> tuple[Any, _At]:
        match step:
            case GrownFunction():
                return self._function(step, value, at, words), at
            case GrownAgent():
                return self._agent(step, value, at, words), at
            case GrownSteps(steps=steps):
                return self.sequence(steps, value, at), at
            case GrownCondition():
                then = not step.looks or is_even(value)
                return self.sequence(step.then if then else step.otherwise, value, at), at
            case GrownRouter():
                return self._routed(step, value, at), at
            case GrownLoop():
                return self._looped(step, value, at)
            case GrownFork():
                return self._forked(step, value, at), at
            case _:
                raise AssertionError(step)

    def _function(self, step: GrownFunction, value: Any, at: _At, words: list[str]) -> str:
        feedback, previous = (at.remark.feedback, at.remark.previous) if at.remark else (None, None)
        made = marked(step.name, value, feedback, previous, words)
        self._followed.ran.append((at.row, made))
        if step.fails and is_even(made):
            raise _Broke
        return made

    def _routed(self, step: GrownRouter, value: Any, at: _At) -> Any:
        choices = {each.name: each for each in step.choices}
        if step.choose is None:
            names = self._selected(step, value, list(choices))
        else:
            said = self._ask(step.choose, at, list(choices), step.choose.most)
            if "value" not in said:
                return _left_out(step.choose)
            names = said["value"]
        for name in names:
            value = self.step(choices[name], value, at.inside(name))
        return value

    def _selected(self, step: GrownRouter, value: str, names: list[str]) -> list[str]:
        if not step.has_model:
            return ways(value, names)
        was_decided, self._was_decided = self._was_decided, False
        if was_decided and step.after_decision is not None:
            return [step.after_decision]
        return ways(value, names)[:1]

    def _looped(self, step: GrownLoop, value: Any, at: _At) -> tuple[Any, _At]:
        for iteration in range(step.most):
            at = replace(at, iteration=iteration)
            value = self.sequence(step.steps, value, at)
            if step.looks and is_even(value):
                return value, at
            if step.each is None:
                continue
            said = self._ask(step.each, at)
            if said["approved"]:
                return said.get("override_output", value), at
            at = replace(at, remark=_Remark(feedback=said.get("feedback"), previous=value))
        if step.each is not None:
            raise _Ended("cancelled")
        return value, at

    def _forked(self, step: GrownFork, value: Any, at: _At) -> dict[str, Any]:
        outputs: dict[str, Any] = {}
        ends: set[str] = set()
        was_decided, since = self._was_decided, False
        for branch in step.branches:
            self._was_decided = was_decided
            try:
                output = self._gated(branch, value, at.inside(branch.name))
            except _Ended as end:
                ends |= end.statuses
            else:
                outputs |= {} if output is _LEFT_OUT else {branch.name: output}
            since = since or self._was_decided
        self._was_decided = since
        if ends:
            self._followed.depends = True
            raise _Ended(*ends)
        return outputs

    def _agent(self, step: GrownAgent, value: Any, at: _At, words: list[str]) -> str:
        parts = [flat(value), *(f'Word: {{"word":"{word}"}}' for word in words)]
        if at.remark is not None:
            parts.append(f"Your previous answer was rejected: {flat(at.remark.previous)}")
            if at.remark.feedback is not None:
                parts.append(f"Feedback: {at.remark.feedback}")
        work = "\n\n".join(parts)
        before = [self._before_call(each, marked(each.name, work), at) for each in step.tools]
        results = [
            self._called(each, call, at) for each, call in zip(step.tools, before, strict=True)
        ]
        return answer_of(step.name, work, results)

    def _before_call(self, tool: GrownTool, body: str, at: _At) -> "_Call":
        """The call after what is asked before it is dispatched."""
        call = _Call(body=body)
        if tool.kind in ("gated", "gated asks"):
            said = self._asked((at.place, "approval", tool.name))
            self._was_decided = True
            if not said["approved"]:
                return replace(call, result=_refused("the call was rejected", said))
            if edited := said.get("override_arguments"):
                changed = orjson.dumps(edited).decode()
                note = f"\n\n[{BY} changed the arguments of this call to {changed}]"
                call = replace(call, body=edited["body"], note=note)
        elif tool.kind == "fills":
            said = self._asked((at.place, "input", tool.name))
            if "value" not in said:
                return replace(call, result=_refused("declined", said))
            call = replace(call, word=said["value"]["word"])
        return call

    def _called(self, tool: GrownTool, call: "_Call", at: _At) -> str:
        if call.result is not None:
            return call.result
        parts = [call.body, *([call.word] if call.word else [])]
        if tool.kind in ("asks", "gated asks"):
            said = self._asked((at.place, "interactive", tool.name))
            if "value" not in said:
                return _refused("declined", said) + call.note
            parts.append(said["value"])
        made = marked(tool.name, *parts)
        self._followed.ran.append((at.row, made))
        return made + call.note

    # ── Asking ───────────────────────────────────────────────────────────────────────────────────

    def _ask(
        self,
        gate: Gate,
        at: _At,
        allowed: Sequence[str] = (),
        most: int = 1,
        *,
        is_fork: bool = False,
    ) -> Decision:
        said = self._asked((at.place, _KINDS[gate.kind], gate.text), allowed, most)
        if is_fork:
            said.pop("override_output", None)
        return said

    def _asked(self, key: Key, allowed: Sequence[str] = (), most: int = 1) -> Decision:
        self._followed.asked.append(key)
        return decision_of(self._number, key, allowed, most)


@dataclass(kw_only=True)
class _Tries:
    """How often a step was made again, after an error and after a review."""

    errors: int = 0
    reviews: int = 0


def _left_out(gate: Gate) -> object:
    """That a step is left out, where its gate does not end the run."""
    if gate.on_reject == "skip":
        return _LEFT_OUT
    raise _Ended("failed" if gate.on_reject == "fail" else "cancelled")


@dataclass(frozen=True, kw_only=True)
class _Call:
    """A call that is about to be dispatched, or has its result without being run."""

    body: str
    word: str | None = None
    note: str = ""
    result: str | None = None


def _refused(what: str, said: Decision) -> str:
    feedback = f": {said['feedback']}" if "feedback" in said else ""
    return f"Tool error: {what} by {BY}{feedback}"


_LEFT_OUT, _AGAIN = object(), object()
_KINDS = {
    "confirm": "confirmation",
    "input": "input",
    "choose": "route",
    "review": "review",
    "error": "error",
}
