"""The inbox in a real browser: filters, forms, what was changed, Markdown, runs, signing in; and axe on all of it."""

import re
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Route, expect

from app.domain.ids import DEFAULT_TENANT
from app.lifecycle import api_keys
from tests.browsing import (
    CHROMIUM,
    WITHOUT,
    Inbox,
    browser,
    inbox,
    keyed_service,
    open_service,
    watched,
)
from tests.keyring import APPROVER, holding, key
from tests.serving import Service, decide, paused

__all__ = ["browser", "inbox", "keyed_service", "open_service"]

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),  # the browser's
    pytest.mark.skipif(not CHROMIUM.exists(), reason=WITHOUT),
]

Json = dict[str, Any]
SOON = 10_000

# ── What is listed ───────────────────────────────────────────────────────────────────────────────────


async def test_what_happens_elsewhere_is_heard_and_announced(inbox: Inbox) -> None:
    """By the stream of events: looking by itself would take longer than this test waits."""
    await inbox.look()
    await expect(inbox.page.get_by_text("Nothing waits for a decision.")).to_be_visible()

    run = await inbox.started("confirmations")
    await expect(inbox.link(run)).to_be_visible(timeout=SOON)
    await expect(inbox.page.locator("#news")).to_have_text("New: Shall it begin?")

    await inbox.client.post(f"/threads/{run['thread_id']}/runs/{run['id']}/cancel")
    await expect(inbox.link(run)).to_have_count(0, timeout=SOON)


async def test_filters_choose_what_is_listed_and_stand_in_the_address(inbox: Inbox) -> None:
    council, confirmation = await inbox.started("councils"), await inbox.started("confirmations")
    question = await inbox.started("colours")
    await inbox.look()
    await expect(inbox.page.locator("#list li")).to_have_count(3)

    await inbox.page.get_by_text("Filter", exact=True).click()
    await inbox.field("Kind").select_option("Confirmation")
    await expect(inbox.link(question)).to_have_count(0)
    await inbox.field("Channel").select_option("others")
    await expect(inbox.link(confirmation)).to_have_count(0)
    await expect(inbox.link(council)).to_be_visible()
    await expect(inbox.page).to_have_url(re.compile(r"\?kind=confirmation&channel=others$"))
    await expect(inbox.page.get_by_text("Filter (2)")).to_be_visible()

    await inbox.page.reload()
    await expect(inbox.page.locator("#list li")).to_have_count(1)
    await inbox.field("Workflow").select_option("colours")
    await expect(inbox.page.get_by_text("Nothing like that waits")).to_be_visible()
    await inbox.press("Show all")
    await expect(inbox.page.locator("#list li")).to_have_count(3)


async def test_a_quorum_shows_how_far_it_is_and_who_has_voted(inbox: Inbox) -> None:
    run = await inbox.started("councils")
    await decide(inbox.client, run, {"approved": True, "by": "paul", "feedback": "fine"})
    await inbox.open(run)

    await expect(inbox.view).to_contain_text("1 of 2 approvals, 1 more needed")
    await expect(inbox.view.get_by_role("listitem").first).to_contain_text("paul approved")
    await expect(inbox.link(run)).to_contain_text("1 of 2 approvals")
    await inbox.press("Approve")

    assert (await inbox.decided(run))["status"] == "completed"


async def test_a_deadline_is_counted_down_in_its_last_hour(inbox: Inbox) -> None:
    await inbox.open(await inbox.started("hurries"))

    left = inbox.view.locator("time.soon")
    await expect(left).to_have_text(re.compile(r"^in (29:5\d|30:00)$"))
    first = await left.text_content()
    await expect(left).not_to_have_text(first or "")


# ── Forms ────────────────────────────────────────────────────────────────────────────────────────────


async def test_dates_objects_and_lists_are_asked_for_by_fields_of_their_own(inbox: Inbox) -> None:
    run = await inbox.started("bookings")
    await inbox.open(run)
    await inbox.field("Day").fill("2026-12-24")
    await inbox.field("From When").fill("2026-12-24T18:30")
    await inbox.field("Name").fill("Ada")
    await inbox.field("Age").fill("36")
    await inbox.press("Add to Guests")
    second = inbox.page.get_by_role("group", name="Guests 2")
    await expect(second.get_by_label("Name")).to_be_focused()
    await second.get_by_label("Name").fill("Charles")
    await second.get_by_label("Age").fill("44")
    await inbox.press("Add to Guests")
    await inbox.press("Remove Guests 3")
    await expect(inbox.page.get_by_role("button", name="Remove Guests 2")).to_be_focused()
    await inbox.page.get_by_label("Give invoice").check()
    await inbox.field("Street").fill("Main Street")
    await inbox.press("Add to Tags")
    await inbox.page.keyboard.type("quiet")
    await inbox.press("Submit")

    value = (await inbox.decided(run))["pauses"][0]["decision"]["value"]
    moment = await inbox.page.evaluate("new Date('2026-12-24T18:30').toISOString()")
    assert value.pop("from_when").rstrip("Z") in moment
    assert value == {
        "day": "2026-12-24",
        "guests": [{"name": "Ada", "age": 36}, {"name": "Charles", "age": 44}],
        "invoice": {"street": "Main Street", "lines": []},
        "tags": ["quiet"],
    }


async def test_what_a_schema_forbids_is_said_before_it_is_sent(inbox: Inbox) -> None:
    await inbox.open(await inbox.started("bookings"))
    await inbox.field("Name").fill("A")
    await inbox.field("Age").fill("151")
    await inbox.press("Submit")

    await expect(inbox.field("Day")).to_be_focused()
    await expect(inbox.field("Name")).to_have_accessible_description("Write at least 2 characters.")
    await expect(inbox.field("Age")).to_have_accessible_description("This may be at most 150.")
    assert inbox.sent == []


# ── What was changed ─────────────────────────────────────────────────────────────────────────────────


async def test_what_is_changed_is_shown_before_it_is_approved_and_afterwards(inbox: Inbox) -> None:
    run = await inbox.started("parcels", "the old wall by the river")
    await inbox.open(run)
    keyboard = inbox.page.keyboard
    await keyboard.press("Escape")
    await keyboard.press("e")
    await expect(inbox.field("Street")).to_be_focused()
    await keyboard.press("Control+A")
    await keyboard.type("the new wall by the river")
    await inbox.press("Add to Lines")
    await keyboard.type("second floor")
    await inbox.page.get_by_label("pin (optional)").fill("9999")

    for diff in (inbox.view.get_by_role("region", name="What you change"), inbox.notice):
        await expect(diff.locator("del").first).to_have_text("removed: old")
        await expect(diff.locator("ins").first).to_have_text("added: new")
        await expect(diff).to_contain_text("second floor")
        await expect(diff).not_to_contain_text("9999")
        if diff is not inbox.notice and not inbox.sent:
            await expect(diff).to_contain_text("another value, not shown")
            await inbox.press("Approve with changes")
            await inbox.decided(run)


async def test_a_change_that_is_taken_back_by_hand_is_none(inbox: Inbox) -> None:
    run = await inbox.started("parcels")
    await inbox.open(run)
    await inbox.page.get_by_text("Change the arguments").click()
    await inbox.field("Number").fill("1")
    await expect(inbox.page.get_by_role("button", name="Approve with changes")).to_be_visible()
    await inbox.field("Number").fill("9007199254740993")
    await expect(inbox.page.get_by_role("button", name="Approve", exact=True)).to_be_visible()


DIFFERENCES: tuple[tuple[str, str, list[str] | None], ...] = (
    ("", "", []),
    ("a b c", "a b c", ["same:a b c"]),
    ("a b c", "a x c", ["same:a ", "gone:b", "new:x", "same: c"]),
    ("", "new", ["new:new"]),
    ("gone", "", ["gone:gone"]),
    ("one two", "two one", None),
    ("größer", "größte", ["gone:größer", "new:größte"]),
)


async def test_two_texts_differ_by_words(inbox: Inbox) -> None:
    """Whatever the pieces are, those that stayed and went make the one text, those that stayed and came the other."""
    await inbox.look()
    for before, after, expected in DIFFERENCES:
        pieces: list[dict[str, str]] = await inbox.page.evaluate(
            "([a, b]) => import('./inbox/diff.js').then((m) => m.wordsBetween(a, b))",
            [before, after],
        )
        assert "".join(each["text"] for each in pieces if each["is"] != "new") == before
        assert "".join(each["text"] for each in pieces if each["is"] != "gone") == after
        if expected is not None:
            assert [f"{each['is']}:{each['text']}" for each in pieces] == expected


# ── Outputs ──────────────────────────────────────────────────────────────────────────────────────────

TEXT = """# An offer

Two **nights** in the *garden* room, `80.50` each.

- breakfast
- checkout
  1. late

| room | price |
|---|---|
| garden | 80.50 |
"""


async def test_an_output_is_reviewed_as_markdown_text_or_json(inbox: Inbox) -> None:
    run = await inbox.started("drafts", TEXT)
    await inbox.open(run)
    output = inbox.view.locator(".output")
    await expect(output.get_by_role("heading", name="An offer", level=4)).to_be_visible()
    await expect(output.get_by_role("cell", name="garden")).to_be_visible()
    await expect(output.locator("li li")).to_have_text("late")

    await inbox.page.get_by_text("Text", exact=True).click()
    await expect(output).to_contain_text("Two **nights** in the *garden* room")
    await inbox.page.get_by_text("JSON", exact=True).click()
    await expect(output).to_contain_text(r"# An offer\n\nTwo **nights**")
    await inbox.press("Approve")

    assert (await inbox.decided(run))["output"] == TEXT


MARKDOWN = {
    "**a** _b_ ~~c~~ ***d***": "<p><strong>a</strong> <em>b</em> <s>c</s> <strong><em>d</em></strong></p>",
    "a snake_case_name and 2*3*4": "<p>a snake_case_name and 2<em>3</em>4</p>",
    r"\*not\* `<b>*c*</b>`": "<p>*not* <code>&lt;b&gt;*c*&lt;/b&gt;</code></p>",
    "# A #\n\n###### B": "<h4>A</h4><h6>B</h6>",
    "a\nb  \nc\n\nd": "<p>a\nb<br>c</p><p>d</p>",
    "- a\n- b\n\n  more\n\nafter": ("<ul><li>a</li><li><p>b</p><p>more</p></li></ul><p>after</p>"),
    "3. c\n4. d": '<ol start="3"><li>c</li><li>d</li></ol>',
    "> a\n> - b": "<blockquote><p>a</p><ul><li>b</li></ul></blockquote>",
    "```js\n<script>\n```": '<pre tabindex="0"><code>&lt;script&gt;</code></pre>',
    "***": "<hr>",
    "[x](javascript:alert(1)) [y](data:text/html,z)": (
        "<p>[x](javascript:alert(1)) y (data:text/html,z)</p>"
    ),
    "<img src=x onerror=alert(1)>": "<p>&lt;img src=x onerror=alert(1)&gt;</p>",
    "<script>alert(1)</script>": "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>",
    "pay \u202e001": "<p>pay ⟨U+202E⟩001</p>",
}
LINK = 'target="_blank" rel="noopener noreferrer"'
LINKS = {
    "[a *b*](https://e.com/?x=1&y)": "<a ...>a <em>b</em></a>",
    "![a picture](https://e.com/p.png)": "<a ...>a picture</a>",
    "<https://e.com>": "<a ...>https://e.com</a>",
    "see https://e.com/a.": "see <a ...>https://e.com/a</a>.",
}
SHOWN = "(t) => import('./inbox/markdown.js').then((m) => m.markdownElement(t).innerHTML)"


async def test_markdown_becomes_the_elements_it_means_and_no_others(inbox: Inbox) -> None:
    await inbox.look()
    for text, expected in MARKDOWN.items():
        shown = await inbox.page.evaluate(SHOWN, text)
        assert shown == expected, text
    for text, expected in LINKS.items():
        shown = await inbox.page.evaluate(SHOWN, text)
        assert LINK in shown
        assert re.sub(r"<a [^>]*>", "<a ...>", shown) == f"<p>{expected}</p>", text


@pytest.mark.parametrize("piece", ["`", "**a ", "[", "[a](", "> ", "- ", "| ", "_a ", "#  ", " "])
async def test_no_text_holds_the_page_up(inbox: Inbox, piece: str) -> None:
    await inbox.look()
    shown = await inbox.page.evaluate(SHOWN, piece * (90_000 // len(piece)) + "x")

    assert "x" in shown


# ── Runs ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_page_of_a_run_draws_its_steps_and_follows_it_to_its_end(inbox: Inbox) -> None:
    run = await inbox.started("publishing", {"topic": "Acme Inc"})
    run = (await decide(inbox.client, run, {"approved": True, "by": "paul"})).json()
    await inbox.open(run, by=None)
    await expect(inbox.view.locator(".history li")).to_have_count(len(run["pauses"]))
    await inbox.page.get_by_role("link", name="See the whole run").click()

    await expect(inbox.page.get_by_role("heading", name="Run of publishing")).to_be_focused()
    tree = inbox.view.locator(".tree").first
    await expect(tree).to_contain_text("Research this topic?")
    await expect(tree).to_contain_text(re.compile(r"Approved by paul, .* waited "))
    await expect(inbox.view).to_contain_text("Spent")
    await expect(inbox.view).to_contain_text("Waited for people")

    await inbox.client.post(f"/threads/{run['thread_id']}/runs/{run['id']}/cancel")
    await expect(inbox.view.locator(".kind").first).to_have_text("Cancelled", timeout=SOON)


async def test_the_page_of_a_run_says_what_each_step_has_spent(inbox: Inbox) -> None:
    run = await inbox.started("colours")
    await inbox.page.goto(f"/inbox#run/{run['thread_id']}/{run['id']}")

    await expect(inbox.view.locator(".tree .step").filter(has_text="clerk")).to_contain_text(
        "$0.25"
    )


async def test_a_run_that_never_was_is_said_to_be_so(inbox: Inbox) -> None:
    await inbox.page.goto("/inbox#run/thr_nothing/run_nothing")

    await expect(inbox.view).to_contain_text("not there any more, or never was")


# ── What goes otherwise ──────────────────────────────────────────────────────────────────────────────


async def test_a_decision_about_something_else_than_was_shown_is_not_taken(inbox: Inbox) -> None:
    run = await inbox.started("confirmations")
    await inbox.open(run)

    async def of_another(route: Route) -> None:
        await route.continue_(headers={**route.request.headers, "if-match": f'"{"0" * 64}"'})

    await inbox.page.route("**/resume", of_another)
    await inbox.press("Approve")
    await expect(inbox.notice).to_contain_text("is not what you saw. Look at it again")
    await expect(inbox.notice).to_contain_text("nothing was decided")
    assert (await inbox.now(run))["status"] == "paused"

    await inbox.page.unroute("**/resume")
    await inbox.press("Approve")
    assert (await inbox.decided(run))["pauses"][0]["decision"]["by"] == "maria"


# ── The line, and the keys ───────────────────────────────────────────────────────────────────────────


async def test_a_lost_line_is_said_and_what_was_missed_is_there_when_it_is_back(
    inbox: Inbox,
) -> None:
    await inbox.look()
    await expect(inbox.page.get_by_text("Nothing waits for a decision.")).to_be_visible()
    banner = inbox.page.locator("#connection")

    await inbox.page.context.set_offline(True)
    await expect(banner).to_contain_text("You are offline.")
    run = await inbox.started("confirmations")
    await inbox.page.context.set_offline(False)

    await expect(inbox.link(run)).to_be_visible(timeout=SOON)
    await expect(banner).to_be_hidden(timeout=SOON)


async def test_the_keys_are_listed_and_can_be_turned_off(inbox: Inbox) -> None:
    run = await inbox.started("confirmations")
    await inbox.look()
    await expect(inbox.link(run)).to_be_visible()
    keyboard = inbox.page.keyboard
    dialog = inbox.page.get_by_role("dialog", name="Keyboard shortcuts")

    await keyboard.press("?")
    await expect(dialog).to_be_visible()
    await keyboard.press("j")  # means nothing behind it
    await dialog.get_by_label("Single keys do this").uncheck()
    await keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await keyboard.press("j")
    await inbox.page.wait_for_timeout(200)
    assert not inbox.page.url.endswith(run["pause"]["id"])

    await inbox.press("Keyboard shortcuts")
    await dialog.get_by_label("Single keys do this").check()
    await inbox.press("Close")
    await keyboard.press("j")
    await expect(inbox.page.get_by_role("heading", name="Shall it begin?")).to_be_focused()
    await keyboard.press("h")
    await expect(inbox.page.get_by_role("heading", name="Run of confirmations")).to_be_focused()
    await keyboard.press("u")
    await expect(inbox.link(run)).to_be_focused()


# ── Signing in ───────────────────────────────────────────────────────────────────────────────────────


@pytest_asyncio.fixture(loop_scope="session")
async def keyed(keyed_service: Service, browser: Browser) -> AsyncGenerator[Inbox]:
    async with watched(keyed_service.client, browser) as inbox:
        yield inbox


async def sign_in(keyed: Inbox, secret: str) -> None:
    await keyed.field("Key").fill(secret)
    await keyed.page.keyboard.press("Enter")


@pytest_asyncio.fixture(loop_scope="session")
async def caller(keyed_service: Service) -> AsyncGenerator[httpx.AsyncClient]:
    secret = await key(keyed_service.site.database, "caller")
    async with holding(keyed_service.client, secret) as client:
        yield client


async def test_a_wrong_key_is_refused_a_right_one_decides_in_its_name_and_signs_out(
    keyed: Inbox, keyed_service: Service, caller: httpx.AsyncClient
) -> None:
    secret = await key(keyed_service.site.database, "maria", scopes=APPROVER)
    run = await paused(caller, "confirmations")
    await keyed.page.goto(f"/inbox#{run['pause']['id']}")
    await expect(keyed.page.get_by_role("heading", name="Sign in")).to_be_focused()
    await expect(keyed.link(run)).to_have_count(0)

    await sign_in(keyed, "sgk_" + "x" * 43)
    await expect(keyed.page.get_by_role("alert")).to_contain_text("not known here")
    await expect(keyed.field("Key")).to_be_focused()

    await sign_in(keyed, secret)
    await expect(keyed.page.locator("#who")).to_have_text("maria")
    await expect(keyed.field("Your name")).to_have_count(0)
    kept: str = await keyed.page.evaluate(
        "document.cookie + JSON.stringify([{...localStorage}, {...sessionStorage}])"
    )
    assert not re.search("sg[ks]_", kept)
    await keyed.page.reload()  # the cookie is still there
    await keyed.press("Approve")
    await expect(keyed.notice).to_contain_text("Approved by maria")

    await keyed.press("Sign out")
    await expect(keyed.page.get_by_text("You are signed out.")).to_be_visible()
    await expect(keyed.view).not_to_contain_text("Shall it begin?")
    await keyed.page.reload()
    await expect(keyed.page.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_another_tenant_sees_nothing(
    keyed: Inbox, keyed_service: Service, caller: httpx.AsyncClient
) -> None:
    secret = await key(keyed_service.site.database, "eve", tenant="elsewhere")
    run = await paused(caller, "confirmations")
    await keyed.page.goto(f"/inbox#{run['pause']['id']}")
    await sign_in(keyed, secret)

    await expect(keyed.view).to_contain_text("not there any more, or never was")
    await expect(keyed.page.get_by_text("Nothing waits for a decision.")).to_be_visible()
    await keyed.page.goto(f"/inbox#run/{run['thread_id']}/{run['id']}")
    await expect(keyed.view).to_contain_text("This run is not there any more, or never was.")


async def test_those_that_one_may_decide_can_be_listed_alone(
    keyed: Inbox, keyed_service: Service, caller: httpx.AsyncClient
) -> None:
    run = await paused(caller, "confirmations")
    own_secret = await key(keyed_service.site.database, "reader", scopes=APPROVER[:1])
    await keyed.look("?mine=1")
    await sign_in(keyed, own_secret)
    await expect(keyed.page.get_by_text("Nothing like that waits")).to_be_visible()
    await keyed.press("Show all")

    await keyed.link(run).click()
    await expect(keyed.notice).to_contain_text("You may not decide this pause.")


async def test_whoevers_key_is_revoked_is_asked_again(keyed: Inbox, keyed_service: Service) -> None:
    database = keyed_service.site.database
    secret = await key(database, "gone")
    await keyed.look()
    await sign_in(keyed, secret)
    await expect(keyed.page.locator("#who")).to_have_text("gone")

    await api_keys.revoke(database, DEFAULT_TENANT, "gone")
    await keyed.page.wait_for_timeout(5_500)  # for so long a good key is remembered
    await keyed.page.reload()

    await expect(keyed.page.get_by_role("heading", name="Sign in")).to_be_visible()


# ── axe ──────────────────────────────────────────────────────────────────────────────────────────────


async def found_by_axe(inbox: Inbox) -> list[str]:
    result: Any = await Axe().run(inbox.page)
    return [
        f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for each in result.response["violations"]
        for node in each["nodes"]
    ]


LOOKS = pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1280), ("dark", 390)], ids=["light and wide", "dark and narrow"]
)


@LOOKS
async def test_axe_finds_nothing_on_any_pause(inbox: Inbox, scheme: Any, width: int) -> None:
    await inbox.page.emulate_media(color_scheme=scheme)
    await inbox.page.set_viewport_size({"width": width, "height": 844})
    given = {"drafts": TEXT, "offers": TEXT}
    kinds = ("parcels", "drafts", "bookings", "ways", "errors", "councils", "hurries", "calls")
    runs = {name: await inbox.started(name, given.get(name, "it")) for name in kinds}
    await decide(inbox.client, runs["councils"], {"approved": True, "by": "paul"})

    for name, run in runs.items():
        await inbox.open(run)
        await expect(inbox.view.locator(".history")).to_be_visible()
        await unfold(inbox)
        if name == "parcels":
            await inbox.field("Street").fill("elsewhere")
            await inbox.field("Number").fill("many")
            await inbox.press("Approve with changes")
        if name == "bookings":
            await inbox.press("Submit")
        assert await found_by_axe(inbox) == [], name


async def unfold(inbox: Inbox) -> None:
    for each in await inbox.view.locator("summary").all():
        await each.click()


@LOOKS
async def test_axe_finds_nothing_beside_the_pauses(inbox: Inbox, scheme: Any, width: int) -> None:
    """On the list, with its filters; on what was decided; on a run; in the list of keys."""
    await inbox.page.emulate_media(color_scheme=scheme)
    await inbox.page.set_viewport_size({"width": width, "height": 844})
    run = await inbox.started("errors")
    await inbox.look()
    await inbox.page.get_by_text("Filter", exact=True).click()
    await expect(inbox.link(run)).to_be_visible()
    assert await found_by_axe(inbox) == [], "list"

    await inbox.open(run)
    await inbox.press("Skip the step")
    await inbox.decided(run)
    assert await found_by_axe(inbox) == [], "decided"
    await inbox.page.get_by_role("link", name="See the whole run").click()
    await expect(inbox.view.locator(".tree").first).to_be_visible()
    await unfold(inbox)
    assert await found_by_axe(inbox) == [], "run"
    await inbox.press("Keyboard shortcuts")
    assert await found_by_axe(inbox) == [], "shortcuts"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_where_one_signs_in(keyed: Inbox, scheme: Any) -> None:
    await keyed.page.emulate_media(color_scheme=scheme)
    await keyed.look()
    await sign_in(keyed, "sgk_" + "x" * 43)
    await expect(keyed.page.get_by_role("alert")).to_be_visible()

    assert await found_by_axe(keyed) == []
