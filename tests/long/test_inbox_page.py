"""The inbox in a real browser, over a real service: what it shows, and how it decides."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Route, expect

from tests.browsing import CHROMIUM, WITHOUT, Inbox, browser, inbox, open_service
from tests.serving import decide
from tests.workflows import desk

__all__ = ["browser", "inbox", "open_service"]

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),  # the browser's
    pytest.mark.skipif(not CHROMIUM.exists(), reason=WITHOUT),
]


# ── Looking ──────────────────────────────────────────────────────────────────────────────────────────


async def test_what_waits_is_listed_the_longest_waiting_first(inbox: Inbox) -> None:
    runs = [await inbox.started(name) for name in ("colours", "confirmations", "errors")]
    await inbox.look()

    entries = inbox.page.locator("#list li")
    await expect(entries).to_have_count(3)
    for at, (kind, run) in enumerate(zip(("Question", "Confirmation", "Error"), runs, strict=True)):
        await expect(entries.nth(at)).to_contain_text(kind)
        await expect(entries.nth(at)).to_contain_text(run["pause"]["message"])
    await expect(inbox.page).to_have_title("(3) Inbox · Signoff")


async def test_an_empty_inbox_says_so(inbox: Inbox) -> None:
    await inbox.look()

    await expect(inbox.page.get_by_text("Nothing waits for a decision.")).to_be_visible()


async def test_what_is_opened_and_closed_elsewhere_comes_and_goes_without_a_reload(
    inbox: Inbox,
) -> None:
    await inbox.look()
    run = await inbox.started("confirmations")
    await expect(inbox.link(run)).to_be_visible(timeout=10_000)

    await decide(inbox.client, run, {"approved": True, "by": "paul"})

    await expect(inbox.link(run)).to_have_count(0, timeout=10_000)


async def test_more_than_a_page_of_them_is_shown_when_asked_for(inbox: Inbox) -> None:
    for _ in range(52):
        await inbox.started("confirmations")
    await inbox.look()
    entries = inbox.page.locator("#list li")
    await expect(entries).to_have_count(50)

    await inbox.press("Show more")

    await expect(entries).to_have_count(52)


async def test_a_call_is_shown_with_who_asks_where_and_all_of_its_arguments(inbox: Inbox) -> None:
    run = await inbox.started("parcels", metadata={"ticket": "OPS-81"})
    await inbox.open(run)

    view = inbox.page.locator("#view")
    shown = ("May clerk call send_parcel?", "parcels/clerk", "desk", run["thread_id"], run["id"])
    arguments = ("Sends a parcel.", "street", "the wall", "at the back", "9007199254740993")
    for each in (*shown, *arguments):
        await expect(view).to_contain_text(each)
    await inbox.page.get_by_text("Metadata").click()
    await expect(view).to_contain_text("OPS-81")


async def test_a_sensitive_argument_is_shown_as_hidden(inbox: Inbox) -> None:
    run = await inbox.started("errands", {"text": "late"})
    await inbox.open(run)

    row = inbox.page.get_by_role("row").filter(has_text="smtp_password")
    await expect(row).to_contain_text("hidden")
    assert "hunter2" not in await inbox.page.content()


async def test_an_address_with_a_pause_opens_it_also_when_it_is_closed(inbox: Inbox) -> None:
    run = await inbox.started("confirmations")
    await decide(inbox.client, run, {"approved": False, "by": "paul", "feedback": "not today"})

    await inbox.page.goto(f"/inbox#{run['pause']['id']}")

    await expect(inbox.notice).to_contain_text("Rejected by paul")
    await expect(inbox.notice).to_contain_text("not today")


async def test_an_address_with_a_pause_that_never_was_says_so(inbox: Inbox) -> None:
    await inbox.page.goto("/inbox#pau_nothing")

    await expect(inbox.page.locator("#view")).to_contain_text("not there any more, or never was")


MARKUP = '<img src=x onerror="document.title=1"><script>document.title=2</script><b>bold</b>'


@pytest.mark.parametrize("workflow", ["anything", "parcels", "offers", "errors"])
async def test_markup_in_what_is_asked_is_text(inbox: Inbox, workflow: str) -> None:
    """As a message, an argument, an output, an error; as a name, a reason and an answer."""
    run = await inbox.started(workflow, MARKUP, metadata={MARKUP: MARKUP})
    await inbox.open(run, by=MARKUP)
    view = inbox.page.locator("#view")
    await expect(view).to_contain_text(MARKUP)

    await decide(
        inbox.client,
        run,
        {
            "anything": {"value": MARKUP},
            "parcels": {"approved": False},
            "offers": {"approved": False},
            "errors": {"action": "fail"},
        }[workflow]
        | {"by": MARKUP, "feedback": MARKUP},
    )
    await expect(inbox.notice).to_contain_text(MARKUP, timeout=10_000)

    assert await view.locator("img, script, b").count() == 0
    assert "Inbox" in await inbox.page.title()


async def test_letters_that_hide_or_turn_others_are_shown_by_their_numbers(inbox: Inbox) -> None:
    await inbox.open(await inbox.started("anything", "pay \u202e001\u202c to \u200bme"))

    heading = inbox.page.get_by_role("heading", level=2)
    await expect(heading).to_have_text("pay ⟨U+202E⟩001⟨U+202C⟩ to ⟨U+200B⟩me")


# ── Deciding ─────────────────────────────────────────────────────────────────────────────────────────


async def test_an_approval_says_who_gave_it_and_what_it_was_about(inbox: Inbox) -> None:
    run = await inbox.started("errands", {"text": "late"})
    await inbox.open(run, by="Maria")
    await inbox.press("Approve")

    ended = await inbox.decided(run)
    assert ended["status"] == "completed"
    assert ended["pauses"][0]["decision"]["by"] == "Maria"
    await expect(inbox.notice).to_contain_text("Approved by Maria")
    await expect(inbox.notice).to_contain_text("The run is completed.")
    (sent,) = inbox.sent
    assert await sent.header_value("if-match") == f'"{run["pause"]["digest"]}"'
    await expect(inbox.link(run)).to_have_count(0)


async def test_a_rejection_takes_its_reason_along(inbox: Inbox) -> None:
    run = await inbox.started("errands", {"text": "late"})
    await inbox.open(run)
    await inbox.page.get_by_label("Reason").fill("too blunt")
    await inbox.press("Reject")

    ended = await inbox.decided(run)
    assert "rejected by maria: too blunt" in ended["output"]["text"]


async def test_nothing_is_decided_without_a_name(inbox: Inbox) -> None:
    run = await inbox.started("confirmations")
    await inbox.open(run, by=None)
    await inbox.press("Approve")

    await expect(inbox.field("Your name")).to_be_focused()
    await expect(inbox.field("Your name")).to_have_attribute("aria-invalid", "true")
    assert inbox.sent == []


async def test_the_name_is_remembered(inbox: Inbox) -> None:
    first, second = [await inbox.started("confirmations") for _ in range(2)]
    await inbox.open(first, by="Maria")
    await inbox.press("Approve")
    await inbox.decided(first)

    await inbox.page.reload()
    await inbox.open(second, by=None)
    await expect(inbox.field("Your name")).to_have_value("Maria")
    await inbox.press("Approve")

    assert (await inbox.decided(second))["pauses"][0]["decision"]["by"] == "Maria"


async def test_the_enter_key_in_a_field_decides_nothing(inbox: Inbox) -> None:
    await inbox.open(await inbox.started("confirmations"))
    await inbox.field("Your name").press("Enter")
    await inbox.page.wait_for_timeout(300)

    assert inbox.sent == []


async def test_a_second_click_sends_nothing_more(inbox: Inbox) -> None:
    run = await inbox.started("confirmations")
    await inbox.open(run)
    await inbox.page.get_by_role("button", name="Approve").dblclick()

    await inbox.decided(run)
    assert len(inbox.sent) == 1


async def test_what_may_be_decided_next_is_a_link(inbox: Inbox) -> None:
    run = await inbox.started("publishing", {"topic": "walls"})
    await inbox.open(run)
    await inbox.press("Approve")
    await inbox.decided(run)
    await expect(inbox.notice).to_contain_text("The run waits for another decision.")

    await inbox.notice.get_by_role("link", name="Which tone?").click()

    await expect(inbox.page.get_by_role("heading", name="Which tone?")).to_be_focused()


# ── Every kind of question ───────────────────────────────────────────────────────────────────────────

Answering = Callable[[Inbox], Awaitable[None]]


def checks(*labels: str) -> Answering:
    async def answer(inbox: Inbox) -> None:
        for label in labels:
            await inbox.field(label).check()

    return answer


def fills(label: str, text: str, *, as_json: bool = False) -> Answering:
    async def answer(inbox: Inbox) -> None:
        if as_json:
            await inbox.field("Write it as JSON").check()
        await inbox.field(label).fill(text)

    return answer


@pytest.mark.parametrize(
    ("workflow", "answer", "button", "output"),
    [
        pytest.param("colours", checks("blue"), "Answer", "'blue'", id="one of some"),
        pytest.param("toppings", checks("oil", "salt"), "Answer", "['oil', 'salt']", id="several"),
        pytest.param("numbers", fills("Your answer", "42"), "Answer", "42", id="a number"),
        pytest.param("truths", checks("No"), "Answer", "False", id="yes or no"),
        pytest.param("moods", checks("good"), "Answer", "<Mood.GOOD: 'good'>", id="an enum"),
        pytest.param("anything", fills("Your answer", "a\nb"), "Answer", r"'a\nb'", id="a text"),
        pytest.param(
            "anything",
            fills("Your answer", '{"a": [1.10, null]}', as_json=True),
            "Answer",
            "{'a': [1.1, None]}",
            id="any JSON",
        ),
        pytest.param(
            "anything",
            fills("Your answer", '""', as_json=True),
            "Answer",
            "''",
            id="an empty text",
        ),
        pytest.param("calls", fills("What came of it", "she agrees"), "Report", "she agrees"),
        pytest.param("ways", checks("right", "left"), "Go this way", "the wall", id="a route"),
    ],
)
async def test_a_question_is_answered_by_what_its_schema_asks_for(
    inbox: Inbox, workflow: str, answer: Answering, button: str, output: str
) -> None:
    run = await inbox.started(workflow)
    await inbox.open(run)
    await answer(inbox)
    await inbox.press(button)

    assert (await inbox.decided(run))["output"] == output


async def test_routes_are_taken_in_the_order_in_which_they_were_ticked(inbox: Inbox) -> None:
    run = await inbox.started("ways")
    await inbox.open(run)
    await expect(inbox.page.get_by_text("Along the river")).to_be_visible()
    await checks("right", "left")(inbox)
    await expect(inbox.page.get_by_text("In this order: right, then left.")).to_be_visible()
    await inbox.press("Go this way")

    ended = await inbox.decided(run)
    assert ended["pauses"][0]["decision"]["value"] == ["right", "left"]


async def test_a_question_can_be_declined(inbox: Inbox) -> None:
    run = await inbox.started("colours")
    await inbox.open(run)
    await inbox.press("Decline")

    assert (await inbox.decided(run))["output"] == "Tool error: declined by maria"


async def test_an_object_is_a_form_with_a_field_for_each_member(inbox: Inbox) -> None:
    run = await inbox.started("stays")
    await inbox.open(run)
    await inbox.field("Nights").fill("3")
    await inbox.field("Price").fill("90.5")
    await checks("No", "street", "wine", "towels")(inbox)
    await inbox.page.get_by_label("Door Code").fill("4711")
    await inbox.press("Submit")

    ended = await inbox.decided(run)
    assert ended["pauses"][0]["decision"]["value"] == {
        "nights": 3,
        "price": 90.5,
        "with_breakfast": False,
        "room": "street",
        "note": None,
        "extras": ["wine", "towels"],
        "door_code": "***",
    }
    assert '"door_code":"***"' in ended["output"]  # sensitive, and struck out of every text


async def test_every_field_that_is_wrong_says_so_and_the_first_has_the_focus(inbox: Inbox) -> None:
    await inbox.open(await inbox.started("stays"))
    await inbox.field("Price").fill("dear")
    await inbox.press("Submit")

    await expect(inbox.field("Nights")).to_be_focused()
    await expect(inbox.field("Nights")).to_have_accessible_description(
        "How many nights it shall be. Fill this in."
    )
    await expect(inbox.field("Price")).to_have_accessible_description(
        "Write a number, such as 12.5."
    )
    await expect(inbox.page.get_by_text("Choose one.")).to_have_count(2)
    assert inbox.sent == []


async def test_what_the_service_finds_wrong_is_said_at_the_field(inbox: Inbox) -> None:
    run = await inbox.started("numbers")
    await inbox.open(run)
    await inbox.field("Your answer").fill("123456789012345678901234567890")
    await inbox.press("Answer")

    await expect(inbox.field("Your answer")).to_have_attribute("aria-invalid", "true")
    await expect(inbox.field("Your answer")).to_be_focused()
    assert (await inbox.now(run))["status"] == "paused"


async def test_what_is_no_json_is_not_sent(inbox: Inbox) -> None:
    await inbox.open(await inbox.started("anything"))
    await fills("Your answer", "{a: 1}", as_json=True)(inbox)
    await inbox.press("Answer")

    await expect(inbox.page.get_by_text("This is not JSON.")).to_be_visible()
    assert inbox.sent == []


@pytest.mark.parametrize(
    ("button", "status"), [("Skip the step", "completed"), ("Fail the run", "failed")]
)
async def test_what_to_do_about_an_error_is_a_button_each(
    inbox: Inbox, button: str, status: str
) -> None:
    run = await inbox.started("errors")
    await inbox.open(run)
    await expect(inbox.page.get_by_role("button", name="Retry")).to_be_visible()
    await expect(inbox.page.locator("#view")).to_contain_text("stumbled over the wall")
    await inbox.press(button)

    assert (await inbox.decided(run))["status"] == status


async def test_arguments_are_changed_and_what_is_left_alone_stays_to_the_digit(
    inbox: Inbox,
) -> None:
    run = await inbox.started("parcels")
    await inbox.open(run)
    await inbox.page.get_by_text("Change the arguments").click()
    await inbox.field("Street").fill("Main Street")
    await inbox.press("Approve with changes")

    ended = await inbox.decided(run)
    assert "parcel 9007199254740993 to Main Street and 4 digits" in ended["output"]
    await expect(inbox.notice).to_contain_text("Approved with changes by maria")


async def test_changes_that_were_undone_are_not_sent(inbox: Inbox) -> None:
    run = await inbox.started("parcels")
    await inbox.open(run)
    await inbox.page.get_by_text("Change the arguments").click()
    await inbox.field("Number").fill("1")
    await expect(inbox.page.get_by_role("button", name="Approve with changes")).to_be_visible()
    await inbox.press("Undo the changes")
    await inbox.press("Approve")

    await inbox.decided(run)
    (sent,) = inbox.sent
    assert (sent.post_data_json or {})["decision"] == {"approved": True, "by": "maria"}


async def test_an_output_is_reviewed_and_changed(inbox: Inbox) -> None:
    run = await inbox.started("offers", "a quiet room\nwith a view")
    await inbox.open(run)
    await expect(inbox.page.get_by_text("a quiet room")).to_be_visible()
    await inbox.page.get_by_text("Change the output").click()
    await inbox.field("Nights").fill("5")
    await inbox.press("Approve with changes")

    output = (await inbox.decided(run))["output"]
    assert output["nights"] == 5
    assert output["note"] == "a quiet room\nwith a view"


async def test_a_whole_workflow_is_brought_to_its_end_by_its_editors(inbox: Inbox) -> None:
    run = await inbox.started("publishing", {"topic": "Acme Inc"})
    await inbox.open(run)

    async def go_on(button: str, following: str | None) -> None:
        await inbox.press(button)
        await expect(inbox.notice).to_contain_text("Your decision is taken.")
        if following:
            await inbox.notice.get_by_role("link", name=following).click()
            await expect(inbox.page.get_by_role("heading", name=following)).to_be_visible()

    await go_on("Approve", "Which tone?")
    await inbox.field("playful").check()
    await go_on("Submit", "Use this draft?")
    await go_on("Approve", "May we name them?")
    await expect(inbox.page.locator("#view").get_by_text("in 48 hours")).to_be_visible()
    await go_on("Approve", "Where shall it appear?")
    await checks("newsletter", "blog")(inbox)
    await go_on("Go this way", "Tell the press?")
    await go_on("Reject", None)

    ended = await inbox.now(run)
    assert ended["status"] == "completed", ended
    assert "sales knows about A playful piece" in str(ended["output"])


# ── When it goes otherwise ───────────────────────────────────────────────────────────────────────────


async def test_a_pause_that_somebody_else_decides_says_so_while_it_is_looked_at(
    inbox: Inbox,
) -> None:
    run = await inbox.started("confirmations")
    await inbox.open(run)

    await decide(inbox.client, run, {"approved": False, "by": "paul", "feedback": "not today"})

    await expect(inbox.notice).to_contain_text("This pause is decided.", timeout=10_000)
    await expect(inbox.notice).to_contain_text("Rejected by paul")


@pytest_asyncio.fixture(loop_scope="session")
async def still(inbox: Inbox) -> Inbox:
    """An inbox that does not look again by itself."""
    await inbox.page.clock.install()
    await inbox.look()
    now = await inbox.page.evaluate("Date.now()")
    await inbox.page.clock.pause_at(now / 1000 + 1)
    return inbox


async def test_a_decision_after_another_one_is_told_which_counts(still: Inbox) -> None:
    run = await still.started("confirmations")
    await still.open(run)
    await decide(still.client, run, {"approved": False, "by": "paul", "feedback": "not today"})

    await still.press("Approve")

    await expect(still.notice).to_contain_text("Somebody else was faster")
    await expect(still.notice).to_contain_text("Your decision was not taken.")
    await expect(still.notice).to_contain_text("Rejected by paul")
    await expect(still.notice).to_be_focused()


async def test_a_decision_about_a_run_that_was_cancelled_is_told_so(still: Inbox) -> None:
    run = await still.started("confirmations")
    await still.open(run)
    await still.client.post(f"/threads/{run['thread_id']}/runs/{run['id']}/cancel")

    await still.press("Approve")

    await expect(still.notice).to_contain_text("The run ended meanwhile")


async def test_a_decision_about_a_run_that_was_superseded_is_told_so(still: Inbox) -> None:
    run = await still.started("confirmations")
    await still.open(run)
    newer = {"workflow": "confirmations", "input": "the roof", "if_paused": "supersede"}
    await still.client.post(f"/threads/{run['thread_id']}/runs", json=newer)

    await still.press("Approve")

    await expect(still.notice).to_contain_text("A newer run of the thread took the place")


async def test_a_decision_after_the_deadline_is_told_so(still: Inbox) -> None:
    run = await still.started("brief")
    await still.open(run)
    await expect(still.page.locator("#view time.soon")).to_be_visible()
    await still.page.wait_for_timeout(2_500)

    await still.press("Approve")

    await expect(still.notice).to_contain_text("The deadline passed before your decision came.")


async def test_a_decision_without_a_connection_says_so_and_is_sent_again(inbox: Inbox) -> None:
    run = await inbox.started("confirmations")
    await inbox.open(run)
    await inbox.page.context.set_offline(True)
    await inbox.press("Approve")
    alert = inbox.page.get_by_role("alert").filter(has_text="cannot be reached")
    await expect(alert).to_be_visible()
    await expect(inbox.page.locator("#connection")).to_contain_text("cannot be reached")

    await inbox.page.context.set_offline(False)
    await inbox.press("Approve")

    assert (await inbox.decided(run))["status"] == "completed"
    await expect(inbox.page.locator("#connection")).to_be_hidden()


async def test_a_decision_whose_answer_was_lost_counts_once_when_it_is_sent_again(
    still: Inbox,
) -> None:
    run = await still.started("errands", {"text": "late"})
    await still.open(run)

    async def lose_the_answer(route: Route) -> None:
        await route.fetch()
        await route.abort()

    async def lose_the_question(route: Route) -> None:
        await route.abort()

    await still.page.route("**/resume", lose_the_answer, times=1)
    await still.page.route("**/pauses?**", lose_the_question)
    await still.press("Approve")
    await expect(still.page.get_by_role("alert")).to_contain_text("it counts once")
    await still.press("Approve")

    ended = await still.decided(run)
    assert ended["status"] == "completed"
    assert len(ended["pauses"]) == 1
    await expect(still.notice).to_contain_text("Approved by maria")


async def test_looking_again_leaves_alone_what_is_being_written(inbox: Inbox) -> None:
    await inbox.open(await inbox.started("anything"))
    await inbox.field("Your answer").fill("half a thou")
    async with inbox.page.expect_response("**/pauses?**"):
        await inbox.started("confirmations")
    await expect(inbox.page.locator("#list li")).to_have_count(2, timeout=10_000)

    await expect(inbox.field("Your answer")).to_have_value("half a thou")
    await expect(inbox.field("Your name")).to_have_value("maria")


# ── For everybody ────────────────────────────────────────────────────────────────────────────────────


async def test_it_can_be_worked_with_the_keyboard_alone(inbox: Inbox) -> None:
    """By its own keys, which move, and by those of the browser."""
    run = await inbox.started("confirmations")
    await inbox.look()
    await expect(inbox.link(run)).to_be_visible()
    keyboard = inbox.page.keyboard

    await keyboard.press("j")
    await expect(inbox.page.get_by_role("heading", level=2)).to_be_focused()
    await keyboard.press("r")
    await keyboard.type("just a look")
    await keyboard.press("Tab")
    await expect(inbox.field("Your name")).to_be_focused()
    await keyboard.type("maria")
    await keyboard.press("Escape")
    await keyboard.press("x")
    await expect(inbox.page.get_by_role("button", name="Reject")).to_be_focused()
    await keyboard.press("Enter")

    decision = (await inbox.decided(run))["pauses"][0]["decision"]
    assert (decision["approved"], decision["by"], decision["feedback"]) == (
        False,
        "maria",
        "just a look",
    )
    await expect(inbox.notice).to_be_focused()


UNNAMED = """
[...document.querySelectorAll("input, textarea, select, button, summary, a")]
  .filter((each) => !(each.labels?.length || each.textContent.trim()))
  .map((each) => each.outerHTML)
"""
TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.mark.parametrize("workflow", [each.name for each in desk.ALL if each.name != "brief"])
async def test_every_control_has_a_name_and_nothing_is_wider_than_a_telephone(
    inbox: Inbox, workflow: str
) -> None:
    await inbox.page.set_viewport_size({"width": 360, "height": 740})
    run = await inbox.started(workflow, "a" * 300)
    await inbox.look()
    await expect(inbox.link(run)).to_be_visible()
    assert not await inbox.page.evaluate(TOO_WIDE)

    await inbox.link(run).click()
    await expect(inbox.page.get_by_role("form")).to_be_visible()
    for each in await inbox.view.locator("summary").all():
        await each.click()

    await expect(inbox.link(run)).to_be_hidden()
    assert await inbox.page.evaluate(UNNAMED) == []
    assert not await inbox.page.evaluate(TOO_WIDE)
    await inbox.page.get_by_role("link", name="All pauses").click()
    await expect(inbox.link(run)).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_is_as_light_or_dark_as_is_wished_for(inbox: Inbox, scheme: Any) -> None:
    await inbox.page.emulate_media(color_scheme=scheme)
    await inbox.look()

    ground = await inbox.page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(each) for each in ground.removeprefix("rgb(").rstrip(")").split(","))
    assert (brightness > 3 * 128) is (scheme == "light")
