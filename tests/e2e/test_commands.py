"""Commands as processes: what they print, what they ask, and how they end."""

import getpass
import re
from collections.abc import Generator
from pathlib import Path

import orjson
import pytest

from app.cli.exits import ExitCode
from tests.service import Processes, processes

SHOP = "tests.workflows.clerks:shop"
DESK = "tests.workflows.clerks:desk"
ME = getpass.getuser()


@pytest.fixture
def own(tmp_path: Path, database_url: str) -> Generator[Processes]:
    """Processes of this test's own that serve the shop and the desk."""
    served = f"{SHOP},{DESK}"
    with processes(tmp_path, workflows=served, database_url=database_url, environment={}) as begun:
        yield begun


async def test_describe_shows_limits_the_channels_of_tools_versions_and_where_it_may_stop(
    own: Processes,
) -> None:
    described = await own.command("describe", "shop", url="http://127.0.0.1:1")
    assert await described.exit_code() == ExitCode.DONE
    lines = [line.strip("│├└─ ") for line in described.said.splitlines()]
    assert "limits: model_calls 12 (default) · tool_calls 8" in lines
    assert lines[0].startswith("shop 2.1.0 ")
    at = lines.index("refund(order, euros, pin?)  Refunds an order.")
    assert lines[at + 1] == "approval → terminal"
    assert ["shop/clerk", "count", "external_result", "→", "cashiers"] in [
        line.split() for line in lines
    ]


async def test_describe_is_json_or_a_graph_where_that_is_wanted(own: Processes) -> None:
    as_json = await own.command("describe", "desk", "--json")
    described = orjson.loads(as_json.said)
    assert (described["name"], len(described["stops"])) == ("desk", 5)
    graph = await own.command("describe", DESK, "--graph", workflows="nothing:here")
    assert graph.said.startswith("flowchart TD\n")
    assert graph.said.strip() == described["graph"]


async def test_describe_names_what_there_is_where_there_is_no_such_workflow(own: Processes) -> None:
    unknown = await own.command("describe", "shoop")
    assert await unknown.exit_code() == ExitCode.FAILED
    assert unknown.complaints == ["There is no workflow 'shoop' here; there is: shop, desk."]


async def test_pauses_lists_what_waits_and_decide_decides_it(own: Processes) -> None:
    served = await own.serve()
    async with served.api() as api:
        run = await api.started("shop", "refund A-1 20")
        pause = run["pause"]["id"]
        listed = await own.command("pauses", url=served.url)
        row = "".join(line for line in listed.said.splitlines() if pause in line)
        assert row, (listed.said, listed.complaints)
        assert row.split()[1:4] == ["approval", "shop", "terminal"]
        assert "May clerk call refund?" in row

        shown = await own.command("pauses", pause, url=served.url)
        assert "A-1" in shown.said
        assert "***" in shown.said
        assert "1234" not in shown.said
        for line in (f"signoff decide {pause} --approve --arguments JSON", "In --arguments:"):
            assert line in shown.said
        assert ["euros", "integer", "required"] in [
            line.split() for line in shown.said.splitlines()
        ]

        decided = await own.command("decide", pause, "--approve", url=served.url)
        assert await decided.exit_code() == ExitCode.DONE, decided.complaints
        assert re.search(rf"approved by {ME} [\d-]+ [\d:]+ [+-]?\w+", decided.said)
        assert "The run is completed." in decided.said
        assert (await api.run(run))["output"] == "refunded 20 euros for A-1"

        late = await own.command("decide", pause, "--reject", url=served.url)
        assert await late.exit_code() == ExitCode.TOO_LATE
        assert len(late.complaints) == 1
        assert (await own.command("pauses", url=served.url)).said == ""


@pytest.mark.parametrize(
    ("asked", "options", "output"),
    [
        (
            "refund A-1 20",
            ["--reject", "--feedback", "too much", "--by", "ada"],
            "Tool error: the call was rejected by ada: too much",
        ),
        (
            "refund A-1 20",
            ["--approve", "--arguments", '{"order": "A-1", "euros": 5}', "--by", "ada"],
            "refunded 5 euros for A-1",
        ),
        ("count 3", ["--value", "250"], "250"),
    ],
)
async def test_decide_takes_every_shape_of_decision(
    own: Processes, asked: str, options: list[str], output: str
) -> None:
    served = await own.serve()
    async with served.api() as api:
        run = await api.started("shop", asked)
        done = await own.command("decide", run["pause"]["id"], *options, "--json", url=served.url)
        assert await done.exit_code() == ExitCode.DONE, done.complaints
        assert orjson.loads(done.said)["output"].startswith(output)


async def test_decide_goes_all_the_way_through_a_desk(own: Processes) -> None:
    served = await own.serve()
    async with served.api() as api:
        run = await api.started("desk", {"guest": "ann", "seats": 2})
        for options in (
            ["--approve"],
            ["--value", '{"mood": "warm", "loud": true}'],
            ["--approve", "--output", '{"text": "hello"}'],
            ["--action", "skip"],
            ["--choose", "post", "--choose", "stamp"],
        ):
            pause = (await api.run(run))["pause"]["id"]
            done = await own.command("decide", pause, *options, url=served.url)
            assert await done.exit_code() == ExitCode.DONE, done.complaints
        assert (await api.run(run))["output"] == {"text": "hello | posted | stamped"}


async def test_what_the_service_refuses_is_one_line_that_says_where(own: Processes) -> None:
    served = await own.serve()
    async with served.api() as api:
        run = await api.started("shop", "refund A-1 20")
        pause = run["pause"]["id"]
        wrong = await own.command(
            "decide", pause, "--approve", "--arguments", '{"order": "A-1"}', url=served.url
        )
        assert await wrong.exit_code() == ExitCode.FAILED
        assert len(wrong.complaints) == 1
        assert wrong.complaints[0].startswith("The decision does not fit: --arguments /euros: ")
        other = await own.command("decide", pause, "--text", "yes", url=served.url)
        assert other.complaints == [
            "The decision does not fit: --text does not go with it. The pause is of the kind approval "
            "and takes --approve or --approve --arguments JSON or --reject."
        ]
        undecided = await own.command("decide", pause, url=served.url)
        assert undecided.complaints[0].startswith("What is the decision? It takes --approve or ")
        assert (await api.run(run))["status"] == "paused"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["pauses"], ExitCode.UNREACHABLE, "start one with `signoff serve`"),
        (["pauses", "--status", "odd"], 2, "odd"),
        (["decide", "p", "--approve", "--reject"], ExitCode.FAILED, "One decision at a time"),
        (["decide", "p", "--value", "{"], ExitCode.FAILED, "--value is no JSON"),
        (["pauses", "--url", "nowhere"], ExitCode.UNREACHABLE, "nowhere"),
        (["describe", "nowhere:nothing"], ExitCode.FAILED, "'nowhere:nothing' cannot be loaded"),
        (["shout"], 2, "No such command 'shout'"),
    ],
)
async def test_what_cannot_be_done_says_why_and_ends_with_a_code(
    own: Processes, words: list[str], code: int, said: str
) -> None:
    done = await own.command(*words, url="http://127.0.0.1:1")
    assert await done.exit_code() == code
    assert said in "\n".join(done.complaints)
    assert "SIGNOFF_WORKFLOWS" not in "\n".join(done.complaints)


async def test_a_question_is_answered_at_the_terminal_where_no_decision_is_given(
    own: Processes,
) -> None:
    served = await own.serve()
    async with served.api() as api:
        run = await api.started("shop", "refund A-1 20")
        pause = run["pause"]["id"]
        asked = own.at_a_terminal("decide", pause, url=served.url)
        asked.sees("Approve?")
        asked.presses("c")
        assert asked.exit_code() == ExitCode.INTERRUPTED
        assert "the pause stays open" in asked.said
        assert (await api.run(run))["status"] == "paused"

        asked = own.at_a_terminal("decide", pause, url=served.url)
        asked.sees("Approve?")
        asked.types("n not today")
        assert asked.exit_code() == ExitCode.DONE
        assert (await api.run(run))["output"] == (
            f"Tool error: the call was rejected by {ME}: not today"
        )


async def test_nothing_is_coloured_where_nobody_looks_or_where_it_is_not_wanted(
    own: Processes,
) -> None:
    piped = await own.command("describe", "shop")
    assert "\x1b" not in piped.said
    plain = own.at_a_terminal("describe", "shop", no_color="1")
    assert plain.exit_code() == ExitCode.DONE
    assert "\x1b[3" not in plain.said


async def test_a_shell_completes_commands_and_the_ids_of_what_waits(
    own: Processes, tmp_path: Path
) -> None:
    served = await own.serve()
    async with served.api() as api:
        pause = (await api.started("shop", "refund A-1 20"))["pause"]["id"]
    for words, offered in (("signoff de", ["describe", "decide"]), ("signoff decide pau", [pause])):
        environment = {
            "_SIGNOFF_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        folder = tmp_path / offered[0]
        folder.mkdir()
        with processes(folder, workflows=SHOP, environment=environment) as shell:
            assert (await shell.command(url=served.url)).said.split() == offered


async def test_describe_asks_a_service_where_that_is_wanted(own: Processes) -> None:
    served = await own.serve()
    described = await own.command("describe", "shop", "--url", served.url, workflows="nothing:here")
    assert described.said.startswith("shop 2.1.0 ")
    unknown = await own.command("describe", "shoop", "--url", served.url)
    assert await unknown.exit_code() == ExitCode.TOO_LATE


async def test_what_a_model_wrote_cannot_rewrite_what_an_approver_reads(own: Processes) -> None:
    served = await own.serve()
    async with served.api() as api:
        run = await api.started("shop", "refund A\u202e1\x1b[2K 20")
    shown = own.at_a_terminal("pauses", run["pause"]["id"], url=served.url)
    assert shown.exit_code() == ExitCode.DONE
    assert "A⟨U+202E⟩1⟨U+001B⟩[2K" in shown.said
