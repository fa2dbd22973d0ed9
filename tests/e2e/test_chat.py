"""`signoff chat` in a real pseudo-terminal: what it hears, asks, says, and how it can be left."""

import getpass
from collections.abc import Generator
from pathlib import Path

import pytest

from app.cli.exits import ExitCode
from tests.service import Processes, processes
from tests.terminal import Terminal
from tests.workflows.talkers import FOLDER, WORDS

SHOP = "tests.workflows.clerks:shop"
DESK = "tests.workflows.clerks:desk"
ME = getpass.getuser()


@pytest.fixture
def own(tmp_path: Path, database_url: str) -> Generator[Processes]:
    """Processes of this test's own that serve the shop and the desk."""
    served = f"{SHOP},{DESK}"
    with processes(tmp_path, workflows=served, database_url=database_url, environment={}) as begun:
        yield begun


def leave(terminal: Terminal) -> None:
    terminal.sees("you:")
    terminal.presses("d")
    assert terminal.exit_code() == ExitCode.DONE, terminal.said


async def test_a_call_is_approved_in_the_terminal(own: Processes) -> None:
    chat = own.at_a_terminal("chat", "shop")
    chat.answers(("you:", "refund A-1 20"))
    chat.sees("May clerk call refund?")
    chat.sees("Approve?")
    assert "A-1" in chat.said
    assert "1234" not in chat.said
    chat.types("y")
    chat.sees("shop: refunded 20 euros for A-1")
    chat.answers(("you:", "thanks"))
    chat.sees("shop: You said: thanks")
    leave(chat)


async def test_a_rejection_says_that_it_was_declined_in_the_terminal_and_by_whose_account(
    own: Processes,
) -> None:
    chat = own.at_a_terminal("chat", "shop")
    chat.answers(("you:", "refund A-1 20"), ("Approve?", "n"))
    chat.sees(f"Tool error: the call was rejected by {ME}: declined in the terminal")
    chat.answers(("you:", "refund A-1 20"), ("Approve?", "perhaps"))
    chat.sees("Please type y or n")
    chat.answers(("Approve?", "n too much"))
    chat.sees(f"Tool error: the call was rejected by {ME}: too much")
    leave(chat)


async def test_two_calls_of_one_turn_are_asked_one_after_the_other(own: Processes) -> None:
    chat = own.at_a_terminal("chat", "shop")
    chat.answers(("you:", "refund A-1 20 twice"), ("Approve?", "n"), ("Approve?", "y"))
    chat.sees("refunded 20 euros for A-1")
    leave(chat)


async def test_arguments_are_edited_and_what_does_not_fit_is_asked_again(own: Processes) -> None:
    chat = own.at_a_terminal("chat", "shop")
    chat.answers(
        ("you:", "refund A-1 20"), ("Approve?", "e"), ("order [A-1]:", ""), ("[20]:", "many")
    )
    chat.sees("Please type a whole number.")
    chat.answers(("[20]:", "5"), ("[***]:", ""), ("Approve with these changes?", "y"))
    chat.sees("refunded 5 euros for A-1")
    leave(chat)


async def test_questions_of_a_tool_are_answered_or_declined(own: Processes) -> None:
    chat = own.at_a_terminal("chat", "shop")
    chat.answers(("you:", "wrap A-1"))
    chat.sees("Which paper?")
    chat.answers(("Answer:", "gold"))
    chat.sees("Please choose from: plain, stars")
    chat.answers(("Answer:", "2"))
    chat.sees("What shall the card say?")
    chat.answers(("Answer:", "get well"))
    chat.sees("shop: wrapped A-1 in stars: get well")
    chat.answers(("you:", "wrap A-2"), ("Answer:", "/decline"))
    chat.sees(f"Tool error: declined by {ME}: declined in the terminal")
    leave(chat)


async def test_steps_ask_for_everything_they_can(own: Processes) -> None:
    chat = own.at_a_terminal("chat", "desk")
    chat.answers(("guest:", "ann"), ("seats (a whole number):", "2"))
    chat.sees("Shall they be greeted?")
    chat.answers(("Approve?", "y"))
    chat.sees("In which tone?")
    chat.answers(("mood (one word):", "warm"), ("[300]:", ""), ("loud (yes or no):", "yes"))
    chat.sees("Is it good?")
    chat.sees("dear ann, warm 300 True")
    chat.answers(("Approve?", "n shorter"))
    chat.sees("dear ann, warm 300 True [shorter]")
    chat.answers(
        ("Approve?", "e"),
        ("text [dear ann, warm 300 True [shorter]]:", "dear ann"),
        ("Approve with these changes?", "y"),
    )
    chat.sees("No seat. What now?")
    chat.sees("the house is full")
    chat.answers(("What now:", "skip"))
    chat.sees("How shall it go?")
    chat.answers(("Which way (several, with commas):", "post, 1"))
    chat.sees("desk: dear ann | posted | stamped")
    chat.sees("guest:")
    chat.presses("d")
    assert chat.exit_code() == ExitCode.DONE


async def test_ctrl_c_at_a_question_leaves_the_run_paused_for_a_later_decision(
    own: Processes,
) -> None:
    chat = own.at_a_terminal("chat", "shop")
    chat.answers(("you:", "refund A-1 20"))
    chat.sees("Approve?")
    chat.presses("c")
    chat.sees("Nothing is decided: the run stays paused")
    assert chat.exit_code() == ExitCode.INTERRUPTED
    words = chat.said.split()
    thread = words[words.index("--thread") + 1]
    pause = next(word for word in words if word.startswith("pau_"))

    served = await own.serve()
    decided = await own.command("decide", pause, "--approve", url=served.url)
    assert await decided.exit_code() == ExitCode.DONE, decided.complaints
    assert "The run is completed." in decided.said
    async with served.api() as api:
        (run,) = (await api.get(f"/threads/{thread}/runs"))["items"]
    assert run["output"] == "refunded 20 euros for A-1"


async def test_a_conversation_is_gone_on_with_where_it_was_left(own: Processes) -> None:
    chat = own.at_a_terminal("chat", "shop", "--thread", "counter")
    chat.answers(("you:", "refund A-1 20"))
    chat.sees("Approve?")
    chat.presses("d")
    assert chat.exit_code() == ExitCode.STILL_OPEN
    assert "signoff chat shop --thread counter" in chat.said

    again = own.at_a_terminal("chat", "shop", "--thread", "counter")
    again.sees("May clerk call refund?")
    again.answers(("Approve?", "y"))
    again.sees("shop: refunded 20 euros for A-1")
    leave(again)


async def test_a_question_that_is_settled_elsewhere_is_not_waited_for(own: Processes) -> None:
    served = await own.serve()
    chat = own.at_a_terminal("chat", "shop", "--thread", "counter", url=served.url)
    chat.answers(("you:", "refund A-1 20"))
    chat.sees("Approve?")
    async with served.api() as api:
        (pause,) = (await api.get("/pauses", status="open"))["items"]
        await api.decided(pause, {"approved": False, "by": "maria", "feedback": "no"})
    chat.sees("rejected by maria")
    chat.sees("Tool error: the call was rejected by maria: no")
    leave(chat)


async def test_a_run_that_goes_on_is_left_to_the_service(own: Processes) -> None:
    served = await own.serve()
    chat = own.at_a_terminal("chat", "shop", "--thread", "counter", url=served.url)
    chat.answers(("you:", "wait 5"))
    chat.sees("· wait")
    chat.presses("c")
    chat.sees("a service goes on with it")
    assert chat.exit_code() == ExitCode.INTERRUPTED
    again = own.at_a_terminal("chat", "shop", "--thread", "counter", url=served.url)
    again.sees("shop: waited 5 seconds")
    leave(again)


async def test_what_cannot_be_talked_to_is_one_line(own: Processes) -> None:
    chat = own.at_a_terminal("chat", "shoop")
    assert chat.exit_code() == ExitCode.TOO_LATE
    assert "There is no workflow 'shoop' here." in chat.said
    which = own.at_a_terminal("chat")
    assert which.exit_code() == ExitCode.FAILED
    assert "With which workflow? There is: shop, desk." in which.said


async def test_a_workflow_is_talked_to_by_its_module_without_settings_or_a_database(
    tmp_path: Path,
) -> None:
    with processes(tmp_path, workflows="nothing:here", environment={}) as begun:
        chat = begun.at_a_terminal("chat", SHOP)
        chat.sees("you:")
        chat.types("hello")
        chat.sees("shop: You said: hello")
        leave(chat)


async def test_an_answer_comes_word_by_word_and_is_not_said_again(
    tmp_path: Path, database_url: str
) -> None:
    with processes(
        tmp_path,
        workflows="tests.workflows.talkers:talk",
        database_url=database_url,
        environment={FOLDER: str(tmp_path)},
    ) as own:
        chat = own.at_a_terminal("chat")
        chat.answers(("you:", "good evening"))
        for word, shown in zip(WORDS, ("talk: well, ", "hello,", "you!"), strict=True):
            assert word not in chat.said
            (tmp_path / word).touch()  # the model says no further word before this
            chat.sees(shown)
        leave(chat)
        assert chat.said.count("you!") == 1


async def test_a_conversation_does_not_open_a_database_past_its_keys(own: Processes) -> None:
    made = await own.command("keys", "create", "--name", "ann", "--scopes", "runs:read")
    assert await made.exit_code() == 0
    chat = own.at_a_terminal("chat", "shop")
    chat.sees("asks for keys")
    assert chat.exit_code() == ExitCode.REFUSED, chat.said
