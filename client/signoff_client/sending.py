"""Where requests go, and as whose: what both clients know of a service."""

from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from signoff_client.plans import Request

HERE: Final = "http://127.0.0.1:8000"
RETRIES: Final = 4
TIMEOUT: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class Address:
    """The address of a service, and the key that is shown there."""

    url: str
    key: str | None = field(repr=False)
    timeout: float

    def of(self, request: Request) -> dict[str, Any]:
        """A request as httpx takes it."""
        url = f"{self.url.rstrip('/')}{request.url}" if request.url[:1] == "/" else request.url
        key = {"authorization": f"Bearer {self.key}"} if self.key else {}
        return {
            "method": request.method,
            "url": url,
            "params": request.query or None,
            "headers": {"accept": "application/json", **key, **request.headers},
            "content": request.content,
            "timeout": httpx.Timeout(self.timeout, read=self.timeout + request.patience),
        }
