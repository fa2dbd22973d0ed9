"""Whom a workflow asks: every ask in it, and whether there is somebody to ask."""

from collections.abc import Iterator, Sequence

from app.authoring.agent import Agent
from app.authoring.channel import Channel
from app.authoring.draft import Draft
from app.authoring.existing import ExistingGraph
from app.authoring.mistakes import Mistake, as_list
from app.authoring.person import ask_user, get_user_input
from app.authoring.terms import Terms


def mistakes_of_asking(
    steps: Sequence[Draft], agents: Sequence[Agent], channels: Sequence[Channel]
) -> Iterator[Mistake]:
    """Asks of channels that are not there, of nobody, and of approvers who can never answer."""
    for step in steps:
        for where, gate in step.asks:
            place = f"{step.place}, {where}={type(gate).__name__}(…)"
            yield from _mistakes(place, [*gate.channels()], gate, channels)
            if gate.channel is None and not channels:
                message = "asks nobody: it needs channel=, or the workflow channels="
                yield Mistake(place=place, message=message)
        if isinstance(step.run, ExistingGraph):
            asks = step.run.asks
            yield from _mistakes(step.place, [*asks.channels()], asks, channels)
            if not channels:
                yield Mistake(
                    place=step.place, message="asks nobody: the workflow has no channels="
                )
    for agent in agents:
        yield from _mistakes_of_agent(agent, channels)


def _mistakes_of_agent(agent: Agent, channels: Sequence[Channel]) -> Iterator[Mistake]:
    for tool in agent.own_tools():
        place = f"agent {agent.name!r}, tool {tool.name!r}"
        yield from _mistakes(place, [*tool.channels()], None, channels)
        for terms in tool.asks():
            yield from _mistakes(place, (), terms, channels)
        if tool in {ask_user, get_user_input} and not channels:
            yield Mistake(place=place, message="asks nobody: the workflow has no channels=")


def _mistakes(
    place: str, asked: Sequence[Channel], terms: Terms | None, channels: Sequence[Channel]
) -> Iterator[Mistake]:
    for channel in asked:
        wrong = _unknown_channel(channel, channels)
        if wrong:
            yield Mistake(place=place, message=wrong)
    known = {f"channel:{each.name}" for each in channels}
    for name in as_list(terms.approvers if terms else ()) or []:
        if isinstance(name, str) and name.startswith("channel:") and name not in known:
            yield Mistake(place=place, message=f"the approver {name!r} is not in channels=")


def same_channel(one: Channel, other: Channel) -> bool:
    """Whether two channels are one: of one class, and alike in everything."""
    return type(one) is type(other) and vars(one) == vars(other)


def _unknown_channel(channel: Channel, known: Sequence[Channel]) -> str | None:
    if any(same_channel(each, channel) for each in known):
        return None
    namesake = next((each for each in known if each.name == channel.name), None)
    if namesake is None:
        return f"asks the channel {channel.name!r}, which is not in channels="
    return f"asks {channel!r}, and channels= has another {namesake!r}"
