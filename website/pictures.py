"""Takes the pictures of docs/pictures from the running product: `python -m website.pictures`.

It serves the examples on an embedded Postgres of its own, makes some runs, and looks at them in Chromium.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from playwright.sync_api import Browser, sync_playwright

ROOT: Final = Path(__file__).parents[1]
PICTURES: Final = ROOT / "docs" / "pictures"
CHROMIUM: Final = Path("/usr/bin/chromium")
EXAMPLES: Final = (
    "examples.errands:errands,examples.publishing:publishing,examples.payments:payments"
)

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A picture, and where it is taken. `scheme` is `light` or `dark`."""

    name: str
    place: str
    width: int
    height: int
    scheme: str


def main() -> None:
    """Takes them all."""
    if not CHROMIUM.exists():
        sys.exit(f"It needs a browser at {CHROMIUM}: apt-get install chromium")
    PICTURES.mkdir(exist_ok=True)
    with served() as url, sync_playwright() as playwright:
        as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=as_root)
        with httpx.Client(base_url=url, timeout=70) as client:
            for each in staged(client):
                take(each, browser, url)
        browser.close()


def staged(client: httpx.Client) -> Iterator[Picture]:
    """Makes the runs that are shown, and says what is to be seen of them."""
    email = started(client, "errands", {"text": "ask for a day off"}, thread="day-off")
    refund = started(client, "payments", {"text": "The parcel came broken."}, thread="order-A-1")
    refund = decided(client, refund, {"approved": True, "by": "john"})
    article = started(client, "publishing", {"topic": "Acme Inc"}, thread="spring-issue")
    article = decided(client, article, {"approved": True, "by": "maria"})
    article = decided(client, article, {"value": {"tone": "playful"}, "by": "maria"})
    yield _wide("inbox", f"#{email['pause']['id']}", "light")
    yield _wide("inbox-dark", f"#{refund['pause']['id']}", "dark")
    yield _narrow("inbox-telephone", f"#{email['pause']['id']}", "light")
    yield _wide("review", f"#{article['pause']['id']}", "light")
    yield _wide("run", f"#run/{article['thread_id']}/{article['id']}", "light")


def _wide(name: str, place: str, scheme: str) -> Picture:
    return Picture(name=name, place=place, width=1280, height=800, scheme=scheme)


def _narrow(name: str, place: str, scheme: str) -> Picture:
    return Picture(name=name, place=place, width=390, height=844, scheme=scheme)


def take(picture: Picture, browser: Browser, url: str) -> None:
    """Opens the page and keeps what it shows."""
    context = browser.new_context(
        base_url=url,
        viewport={"width": picture.width, "height": picture.height},
        color_scheme="dark" if picture.scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(f"/inbox{picture.place}")
    page.locator("#view h2").first.wait_for()
    page.locator("#list li").first.wait_for(state="attached")
    path = PICTURES / f"{picture.name}.png"
    page.screenshot(path=path)
    context.close()
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} kB")


def started(client: httpx.Client, workflow: str, given: Json, *, thread: str) -> Json:
    body = {"workflow": workflow, "input": given, "if_not_exists": "create"}
    answer = client.post(f"/threads/{thread}/runs", json=body, headers={"prefer": "wait=30"})
    return answer.raise_for_status().json()


def decided(client: httpx.Client, run: Json, decision: Json) -> Json:
    answer = client.post(
        f"/threads/{run['thread_id']}/resume",
        json={"pause_id": run["pause"]["id"], "decision": decision},
        headers={"prefer": "wait=30"},
    )
    return answer.raise_for_status().json()


@contextmanager
def served() -> Generator[str]:
    """The address of a service with the examples, for as long as the pictures take."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **{name: each for name, each in os.environ.items() if not name.startswith("SIGNOFF_")},
            "SIGNOFF_WORKFLOWS": EXAMPLES,
            "SIGNOFF_DATA_DIR": folder,
            "SIGNOFF_LOG_LEVEL": "WARNING",
        }
        environment.pop("DATABASE_URL", None)
        command = [sys.executable, "-c", "from app.cli import main; main()", "serve"]
        service = subprocess.Popen([*command, "--port", str(port)], env=environment, cwd=ROOT)
        try:
            _wait_for(url, service)
            yield url
        finally:
            service.terminate()
            service.wait()


def _wait_for(url: str, service: subprocess.Popen[bytes]) -> None:
    while service.poll() is None:
        with suppress(httpx.TransportError):
            if httpx.get(f"{url}/readyz").is_success:
                return
        time.sleep(0.1)
    sys.exit("The service has ended.")


if __name__ == "__main__":
    main()
