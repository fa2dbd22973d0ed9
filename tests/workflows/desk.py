"""A workflow for each kind of question that a person can be asked."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.authoring import (
    Agent,
    AskError,
    AskInput,
    Choose,
    Confirm,
    ModelRequest,
    Question,
    Reply,
    Review,
    Router,
    ScriptedModel,
    Sensitive,
    Step,
    StepContext,
    Tool,
    ToolContext,
    Usage,
    Workflow,
    call_tool,
    reply_with,
    tool,
)
from app.channels import InboxChannel

desk = InboxChannel("desk")
others = InboxChannel("others")


PRICE = Usage(input_tokens=100, output_tokens=20, cost=Decimal("0.25"))
"""What it takes to think of a call."""


class Stay(BaseModel):
    """What a guest is offered."""

    nights: int = Field(description="How many nights it shall be.")
    price: float
    with_breakfast: bool
    room: Literal["garden", "street"]
    note: str | None = None
    extras: list[Literal["towels", "flowers", "wine"]] = []
    door_code: Annotated[str | None, Sensitive] = None


class Address(BaseModel):
    street: str
    lines: list[str] = []


class Parcel(BaseModel):
    to: Address
    number: int
    pin: Annotated[str, Sensitive]


class Guest(BaseModel):
    """Somebody who comes along."""

    name: str = Field(min_length=2)
    age: int = Field(ge=0, le=150)


class Booking(BaseModel):
    """What a booking needs."""

    day: date
    from_when: datetime
    guests: list[Guest] = Field(min_length=1, max_length=3)
    invoice: Address | None = None
    tags: list[str] = []


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


@tool(channel=desk)
async def send_parcel(parcel: Parcel) -> str:
    """Sends a parcel."""
    return f"parcel {parcel.number} to {parcel.to.street} and {len(parcel.pin)} digits"


def asking(name: str, question: Callable[[str], Question[Any]]) -> Workflow:
    """A tool asks something about the input; what it hears is the output."""

    @tool
    async def ask(context: ToolContext, about: str) -> str:
        """Asks about something."""
        return repr(await context.pause(question(about)))

    return calling(name, ask, lambda text: {"about": text})


def calling(
    name: str, does: Tool[..., Any], arguments: Callable[[str], dict[str, Any]]
) -> Workflow:
    """An agent calls a tool once; what comes of it is the output."""

    def answer(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        if last.role == "tool":
            return reply_with(last.text)
        return replace(call_tool(does.name, arguments(last.text)), usage=PRICE)

    clerk = Agent("clerk", prompt="Do it.", model=ScriptedModel(answer), tools=[does])
    return Workflow(name, version="1", input=str, steps=[clerk], channels=[desk])


@tool(channel=desk, external=True)
async def call_customer(customer: str) -> str:
    """Calls a customer by telephone."""
    raise NotImplementedError


async def echo(context: StepContext, text: str) -> str:
    return text


async def offer(context: StepContext, text: str) -> Stay:
    return Stay(nights=2, price=80.5, with_breakfast=True, room="garden", note=text)


async def fill_in(context: StepContext, text: str) -> str:
    return context.input(Stay).model_dump_json()


async def book(context: StepContext, text: str) -> str:
    return context.input(Booking).model_dump_json()


async def stumble(context: StepContext, text: str) -> str:
    raise RuntimeError(f"stumbled over {text}")


parcels = calling(
    "parcels",
    send_parcel,
    lambda text: {
        "to": {"street": text, "lines": ["at the back"]},
        "number": 9007199254740993,
        "pin": "1234",
    },
)
colours = asking("colours", lambda about: Question(about, options=["red", "blue"], channel=desk))
toppings = asking(
    "toppings",
    lambda about: Question(about, options=["salt", "oil", "herbs"], multiple=True, channel=desk),
)
anything = asking("anything", lambda about: Question(about, channel=desk))
numbers = asking("numbers", lambda about: Question(about, answer=int, channel=desk))
moods = asking("moods", lambda about: Question(about, answer=Mood, channel=desk))
truths = asking("truths", lambda about: Question(about, answer=bool, channel=desk))
addresses = asking("addresses", lambda about: Question(about, answer=Parcel, channel=desk))
calls = calling("calls", call_customer, lambda text: {"customer": text})
confirmations = Workflow(
    "confirmations",
    version="1",
    input=str,
    steps=[Step("echo", echo, before=Confirm("Shall it begin?", channel=desk))],
    channels=[desk],
)
hurries = Workflow(
    "hurries",
    version="1",
    input=str,
    steps=[
        Step(
            "echo",
            echo,
            before=Confirm("In half an hour?", channel=desk, expires_after=timedelta(minutes=30)),
        )
    ],
    channels=[desk],
)
brief = Workflow(
    "brief",
    version="1",
    input=str,
    steps=[
        Step(
            "echo",
            echo,
            before=Confirm("Quick!", channel=desk, expires_after=timedelta(seconds=2)),
        )
    ],
    channels=[desk],
)
stays = Workflow(
    "stays",
    version="1",
    input=str,
    steps=[Step("fill in", fill_in, before=AskInput("Which stay?", Stay, channel=desk))],
    channels=[desk],
)
offers = Workflow(
    "offers",
    version="1",
    input=str,
    output=Stay,
    steps=[Step("offer", offer, after=Review("Is this a good offer?", channel=desk))],
    channels=[desk],
)
ways = Workflow(
    "ways",
    version="1",
    input=str,
    steps=[
        Router(
            "way",
            choices=[Step("left", echo, description="Along the river"), Step("right", echo)],
            select=Choose("Which way?", channel=desk, multiple=True),
        )
    ],
    channels=[desk],
)
errors = Workflow(
    "errors",
    version="1",
    input=str,
    steps=[
        Step("stumble", stumble, on_error=AskError("It failed. What now?", channel=desk)),
        Step("echo", echo),
    ],
    channels=[desk],
)

bookings = Workflow(
    "bookings",
    version="1",
    input=str,
    steps=[Step("book", book, before=AskInput("For whom, and when?", Booking, channel=desk))],
    channels=[desk],
)
drafts = Workflow(
    "drafts",
    version="1",
    input=str,
    steps=[Step("draft", echo, after=Review("Is this a good text?", channel=desk))],
    channels=[desk],
)
councils = Workflow(
    "councils",
    version="1",
    input=str,
    steps=[Step("echo", echo, before=Confirm("Do all agree?", channel=others, quorum=2))],
    channels=[others],
)

ALL = (
    *(parcels, colours, toppings, anything, numbers, moods, truths, addresses, calls),
    *(confirmations, brief, stays, offers, ways, errors, bookings, drafts, councils, hurries),
)
"""Each of them asks once, and takes a text."""
