"""Small workflows whose tools leave a line for everything they do."""

import os
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from app.authoring import (
    Agent,
    Approval,
    Channel,
    ModelRequest,
    Notice,
    Question,
    Reply,
    ScriptedModel,
    StepContext,
    Tool,
    ToolContext,
    Usage,
    Workflow,
    call_tool,
    call_tools,
    reply_with,
    tool,
)
from app.authoring.step import StepFunction
from app.channels import (
    AutoApproveChannel,
    AutoRejectChannel,
    HttpCallbackChannel,
    InboxChannel,
)
from app.domain.decision import Decision, Verdict
from tests.workflows.effects import VARIABLE, note, permission


class Pigeons(Channel):
    """A channel of a writer's own: it fails at first, then approves what it is told of."""

    async def notify(self, notice: Notice) -> Decision | None:
        told = Path(os.environ[VARIABLE]).with_name("pigeons")
        with told.open("a") as file:
            file.write(f"{notice.type} {notice.id}\n")
        if notice.type != "pause.opened":
            return None
        if told.read_text().count(notice.id) == 1:
            raise ConnectionError("the pigeon got lost")
        return Verdict(approved=True, feedback="coo")


desk = InboxChannel("desk")
approvers = HttpCallbackChannel("approvers")
pigeons = Pigeons("pigeons")
yes = AutoApproveChannel("yes")
no = AutoRejectChannel("no")


async def send(context: ToolContext, text: str) -> str:
    """Sends a letter."""
    note(context, f"sent {text[:40]}")
    return f"sent {text[:40]}"


async def work(context: ToolContext, task: str) -> str:
    """Works as long as it takes."""
    note(context, f"began {task}")
    await permission(task)
    note(context, f"ended {task}")
    return f"done {task}"


@tool
async def enquire(context: ToolContext, about: str) -> str:
    """Asks before it does anything."""
    answer = await context.pause(Question(f"What about {about}?", channel=desk))
    note(context, f"heard {answer}")
    return str(answer)


class Unlucky(Exception):
    """What a step raises."""


async def stumble(context: StepContext, text: str) -> str:
    raise Unlucky("the step stumbled")


FIRST = Usage(input_tokens=11, output_tokens=5, cost=Decimal("0.01"))
SECOND = Usage(input_tokens=7, output_tokens=3, cost=Decimal("0.02"))


VOTED = Approval(quorum=2)
TIMED = Approval(
    expires_after=timedelta(hours=1),
    on_expire="approve",
    remind_before=timedelta(minutes=20),
    escalate_to=approvers,
)


def workflow(name: str, does: Tool[[str], str], *further: StepFunction) -> Workflow:
    """An agent that calls the tool with its input and answers what came of it."""

    def answer(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        if last.role == "tool":
            return reply_with(last.text, usage=SECOND)
        return replace(call_tool(does, last.text), usage=FIRST)

    clerk = Agent("clerk", prompt="Do it.", model=ScriptedModel(answer), tools=[does])
    everybody = [desk, approvers, pigeons, yes, no]
    return Workflow(
        name, version="1", input=str, steps=[clerk, *further], channels=everybody, history=3
    )


def both(request: ModelRequest) -> Reply:
    """Two gated calls in one turn, then what came of them."""
    heard = [each.text for each in request.messages if each.role == "tool"]
    if heard:
        return reply_with("; ".join(heard))
    text = request.messages[-1].text
    gated = tool(channel=desk)(send)
    return call_tools(call_tool(gated, f"{text} 1"), call_tool(gated, f"{text} 2"))


letters = workflow("letters", tool(channel=desk)(send))
told_letters = workflow("told_letters", tool(channel=approvers)(send))
pigeon_letters = workflow("pigeon_letters", tool(channel=pigeons)(send))
waved_letters = workflow("waved_letters", tool(channel=yes)(send))
refused_letters = workflow("refused_letters", tool(channel=no)(send))
voted_letters = workflow("voted_letters", tool(channel=desk, approval=VOTED)(send))
timed_letters = workflow("timed_letters", tool(channel=approvers, approval=TIMED)(send))
unlucky_letters = workflow("unlucky_letters", tool(channel=desk)(send), stumble)
jobs = workflow("jobs", tool(work))
gated_jobs = workflow("gated_jobs", tool(channel=desk)(work))
enquiries = workflow("enquiries", enquire)
pairs = Workflow(
    "pairs",
    version="1",
    input=str,
    steps=[
        Agent(
            "clerk", prompt="Do both.", model=ScriptedModel(both), tools=[tool(channel=desk)(send)]
        )
    ],
    channels=[desk],
)

SERVED = ",".join(
    f"{__name__}:{each}"
    for each in (
        "letters",
        "told_letters",
        "pigeon_letters",
        "waved_letters",
        "refused_letters",
        "voted_letters",
        "timed_letters",
        "unlucky_letters",
        "jobs",
        "gated_jobs",
        "enquiries",
        "pairs",
    )
)
"""All of them, as `SIGNOFF_WORKFLOWS` names them."""
