"""The inbox as it is sent: its files, their headers, and what they must not do."""

import re
from collections.abc import AsyncGenerator

import httpx
import pytest

from app.api import document
from app.inbox.serving import FOLDER
from tests.serving import serving, site_over
from tests.workflows.papers import echoes

FILES = sorted(path.name for path in FOLDER.iterdir())
SCRIPTS = [name for name in FILES if name.endswith(".js")]
PLACES = ["/inbox", *(f"/inbox/{name}" for name in FILES)]


@pytest.fixture
async def client(database_url: str) -> AsyncGenerator[httpx.AsyncClient]:
    async with site_over(database_url, [echoes], works=False) as site, serving(site) as client:
        yield client


async def test_the_page_and_all_of_its_files_are_served_as_what_they_are(
    client: httpx.AsyncClient,
) -> None:
    types = {place: (await client.get(place)).headers["content-type"] for place in PLACES}

    assert types["/inbox"] == "text/html; charset=utf-8"
    assert types["/inbox/inbox.css"] == "text/css; charset=utf-8"
    assert types["/inbox/icon.svg"] == "image/svg+xml"
    assert {types[f"/inbox/{each}"] for each in SCRIPTS} == {"text/javascript; charset=utf-8"}


async def test_every_file_may_load_and_reach_nothing_but_its_own_service(
    client: httpx.AsyncClient,
) -> None:
    for place in PLACES:
        headers = (await client.get(place)).headers
        policy = dict(each.split(" ", 1) for each in headers["content-security-policy"].split("; "))
        assert policy == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "connect-src": "'self'",
            "img-src": "'self' data:",
            "base-uri": "'none'",
            "form-action": "'none'",
            "frame-ancestors": "'none'",
            "require-trusted-types-for": "'script'",
        }
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


async def test_what_the_page_and_its_scripts_name_is_served(client: httpx.AsyncClient) -> None:
    page = (await client.get("/inbox")).text
    named = set(re.findall(r'(?:src|href)="([^"#]+)"', page))
    for script in SCRIPTS:
        text = (await client.get(f"/inbox/{script}")).text
        named |= {f"inbox/{each}" for each in re.findall(r'from "\./([^"]+)"', text)}

    assert {f"inbox/{each}" for each in SCRIPTS} <= named
    for each in named:
        assert (await client.get(f"/{each}")).status_code == 200, each


@pytest.mark.parametrize("name", FILES)
def test_no_file_names_another_host(name: str) -> None:
    text = (FOLDER / name).read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")

    assert not re.search(r"\b(https?|wss?):|(src|href)=.//|url\(", text)


@pytest.mark.parametrize("name", FILES)
def test_no_file_makes_markup_or_code_of_text(name: str) -> None:
    text = (FOLDER / name).read_text()
    markup = "innerHTML|outerHTML|insertAdjacentHTML|DOMParser|createContextualFragment|srcdoc"
    code = r"document\.write|\beval\b|new Function|javascript:"

    assert not re.search(f"{markup}|{code}", text)
    assert not re.search(r"\s(on[a-z]+|style)=", text)


async def test_a_slash_at_its_end_leads_to_the_page(client: httpx.AsyncClient) -> None:
    moved = await client.get("/inbox/", follow_redirects=True)

    assert moved.url.path == "/inbox"
    assert moved.status_code == 200


async def test_the_root_sends_a_browser_to_the_page_and_tells_others_where_things_are(
    client: httpx.AsyncClient,
) -> None:
    browser = await client.get("/", headers={"accept": "text/html,*/*"}, follow_redirects=True)
    assert browser.url.path == "/inbox"
    assert browser.headers["content-type"].startswith("text/html")
    told = (await client.get("/")).json()
    for name in ("inbox", "openapi", "workflows", "pauses"):
        assert (await client.get(f"/{told[name]}")).status_code == 200


async def test_it_can_be_asked_for_its_headers_alone(client: httpx.AsyncClient) -> None:
    asked = await client.head("/inbox")

    assert asked.status_code == 200
    assert asked.headers["content-type"] == "text/html; charset=utf-8"


async def test_a_file_that_is_not_there_is_a_problem(client: httpx.AsyncClient) -> None:
    for name in ("nothing.js", "serving.py", "..%2F__init__.py", "%2e%2e/__init__.py"):
        missing = await client.get(f"/inbox/{name}")
        assert missing.status_code == 404
        assert missing.headers["content-type"] == "application/problem+json"


async def test_it_takes_nothing(client: httpx.AsyncClient) -> None:
    assert (await client.post("/inbox", json={})).status_code == 405


def test_it_is_no_part_of_the_described_api() -> None:
    assert "/inbox" not in document()
