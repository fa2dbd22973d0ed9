"""The inbox in a real browser over a real service; one service, one of each kind, for all tests of the page."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, Request, async_playwright, expect

from examples.errands import errands
from examples.publishing import publishing
from tests.postgres import Cluster
from tests.serving import Service, service
from tests.workflows import desk

CHROMIUM = Path("/usr/bin/chromium")
WITHOUT = "needs a browser: apt-get install chromium"

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Inbox:
    """The page in a browser, and a caller of the same service."""

    page: Page
    client: httpx.AsyncClient
    requests: list[Request]

    async def started(self, workflow: str, given: object = "the wall", **more: Any) -> Json:
        """A run in a thread of its own that waits for a decision."""
        thread = (await self.client.post("/threads")).json()["id"]
        body = {"workflow": workflow, "input": given, **more}
        run = (await self.client.post(f"/threads/{thread}/runs", json=body)).json()
        assert run["status"] == "paused", run
        return run

    async def look(self, query: str = "") -> None:
        await self.page.goto(f"/inbox{query}")

    async def open(self, run: Json, *, by: str | None = "maria") -> None:
        """Opens a run's pause as a link of the list does, and gives a name where there is to be one."""
        await self.page.goto("/inbox")
        await self.link(run).click()
        await expect(self.page.get_by_role("form", name="Decision")).to_be_visible()
        if by:
            await self.field("Your name").fill(by)

    def link(self, run: Json) -> Locator:
        return self.page.locator(f"#list a[href='#{run['pause']['id']}']")

    def field(self, label: str) -> Locator:
        return self.page.get_by_label(label, exact=True)

    async def press(self, button: str) -> None:
        await self.page.get_by_role("button", name=button, exact=True).click()

    @property
    def notice(self) -> Locator:
        return self.page.locator(".notice")

    @property
    def view(self) -> Locator:
        return self.page.locator("#view")

    async def decided(self, run: Json) -> Json:
        """The run, once the page says that the decision is taken."""
        await expect(self.notice).to_contain_text("Your decision is taken.")
        return await self.now(run)

    async def now(self, run: Json) -> Json:
        place = f"/threads/{run['thread_id']}/runs/{run['id']}"
        return (await self.client.get(place, headers={"prefer": "wait=20"})).json()

    @property
    def sent(self) -> list[Request]:
        """The decisions that the page has sent."""
        return [each for each in self.requests if each.url.endswith("/resume")]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncGenerator[Browser]:
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=as_root)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def open_service(cluster: Cluster) -> AsyncGenerator[Service]:
    """A service that asks nobody who they are."""
    async with (
        cluster.migrated_database() as url,
        service(url, [errands, publishing, *desk.ALL]) as served,
    ):
        yield served


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def keyed_service(cluster: Cluster) -> AsyncGenerator[Service]:
    """A service that asks for keys."""
    async with (
        cluster.migrated_database() as url,
        service(url, [errands, *desk.ALL], is_open=False) as served,
    ):
        yield served


@pytest_asyncio.fixture(loop_scope="session")
async def inbox(open_service: Service, browser: Browser) -> AsyncGenerator[Inbox]:
    async with watched(open_service.client, browser) as inbox:
        yield inbox
    await _clear(open_service.client)


@asynccontextmanager
async def watched(client: httpx.AsyncClient, browser: Browser) -> AsyncGenerator[Inbox]:
    """It must break nothing, be refused nothing by its own policy, and ask nobody but its service."""
    base = str(client.base_url)
    context = await browser.new_context(base_url=base)
    page = await context.new_page()
    requests: list[Request] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request))
    page.on("pageerror", lambda error: complaints.append(error.message))
    page.on("console", lambda said: complaints.append(said.text))
    yield Inbox(page=page, client=client, requests=requests)
    await context.close()
    foreign = [each.url for each in requests if not each.url.startswith(base)]
    assert not foreign, foreign
    grave = [each for each in complaints if not each.startswith("Failed to load resource")]
    assert not grave, grave


async def _clear(client: httpx.AsyncClient) -> None:
    """Ends whatever waits, so that the next test begins with an empty list."""
    while items := (await client.get("/pauses?status=open&limit=100")).json()["items"]:
        for each in items:
            await client.post(f"/threads/{each['thread_id']}/runs/{each['run_id']}/cancel")
