"""Decides which addresses may be sent to, and connects to exactly the ones it looked at.

A webhook's URL is somebody's text. Without a guard it could make the service speak to its own
database, to a neighbour, or to the cloud's metadata server. The host name is resolved once, every
address it stands for is judged, and the connection goes to one of these addresses and not to the name:
a resolver that gives another answer the next time gains nothing. TLS still proves the name.
"""

import asyncio
import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final, Protocol, TypeAlias

import httpx

from app.errors import AuthoringError, Forbidden

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network


class AddressRefused(Forbidden):
    """An address that notices are not sent to."""

    code = "address_refused"


class BadNetwork(AuthoringError):
    """A text that is no network in CIDR notation."""

    code = "bad_network"


class Resolver(Protocol):
    """Finds the addresses of a host name."""

    async def resolve(self, host: str) -> Sequence[Address]:
        """All addresses of `host`, in the order in which to try them; `OSError` if it has none."""
        ...


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Networks written as CIDR, like `10.0.0.0/8` or `fd00::/8`.

    Raises:
        BadNetwork: One of them is not written so; the message shows it.
    """
    networks: list[Network] = []
    for text in texts:
        try:
            networks.append(ip_network(text.strip()))
        except ValueError as error:
            raise BadNetwork(f"{text!r} is not a network like 10.0.0.0/8: {error}.") from error
    return tuple(networks)


LOOPBACK: Final = parse_networks(["127.0.0.0/8", "::1/128"])
"""What a service that is itself open on loopback may send to without asking."""

_NAT64: Final = IPv6Network("64:ff9b::/96")
_PUBLIC_IPV6: Final = IPv6Network("2000::/3")

# IANA's special-purpose registries, written out so that the verdict does not depend on the Python
# at hand: `ipaddress` calls some of these global, and multicast too.
_REFUSED: Final = parse_networks(
    [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind a carrier's NAT; one cloud's metadata server among them
        "127.0.0.0/8",
        "168.63.129.16/32",  # one cloud's host agent, on a public address
        "169.254.0.0/16",  # link-local; most clouds' metadata server among them
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments; one cloud's metadata server among them
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "2001::/23",  # protocol assignments; Teredo, which hides an IPv4 address, among them
        "2001:db8::/32",
        "2002::/16",  # 6to4, which hides an IPv4 address
        "3fff::/20",
    ]
)

# Some resolvers read these as addresses, in decimal, octal or hexadecimal; no public host ends so.
_NUMBER_LIKE: Final = re.compile(r"(^|\.)(\d+|0x[0-9a-f]*)\.?$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class AddressGuard:
    """The rules for one service.

    Args:
        resolver: Finds the addresses of host names.
        allowed: Networks that may be sent to although they are not public, and over http too.
    """

    resolver: Resolver
    allowed: tuple[Network, ...] = ()

    async def addresses(self, url: httpx.URL) -> list[Address]:
        """The addresses that a request to `url` may connect to, at least one.

        Raises:
            AddressRefused: The URL's form or any one of its addresses is not acceptable.
        """
        if url.scheme not in ("https", "http") or not url.host:
            raise AddressRefused("The address is not an https URL.")
        if url.userinfo:
            raise AddressRefused(
                "The address has a name or a password before the host: not allowed."
            )
        found = [_unwrapped(address) for address in await self._resolved(_host(url))]
        for address in found:
            self._judge(address)
        if url.scheme == "http" and not all(self._is_allowed(address) for address in found):
            raise AddressRefused(
                "The address is http: only https is allowed outside allowed networks."
            )
        return found

    async def _resolved(self, host: str) -> Sequence[Address]:
        try:
            return [ip_address(host)]
        except ValueError:
            pass
        if _NUMBER_LIKE.search(host):
            raise AddressRefused(
                "The host is a number that is not a plain IP address: not allowed."
            )
        try:
            found = await self.resolver.resolve(host)
        except (OSError, UnicodeError) as error:
            raise AddressRefused("The host name does not resolve.") from error
        if not found:
            raise AddressRefused("The host name has no address.")
        return found

    def _judge(self, address: Address) -> None:
        if self._is_allowed(address):
            return
        network = next((network for network in _REFUSED if address in network), None)
        if network is not None:
            raise AddressRefused(
                f"The host is in {network}, which is not public: not allowed unless that network is."
            )
        if address.version == 6 and address not in _PUBLIC_IPV6:
            raise AddressRefused("The host is not at a public IPv6 address: not allowed.")

    def _is_allowed(self, address: Address) -> bool:
        return any(address in network for network in self.allowed)


def _host(url: httpx.URL) -> str:
    return url.raw_host.decode("ascii")


def _unwrapped(address: Address) -> Address:
    """The IPv4 address where an IPv6 one only carries it (mapped, or through NAT64), else the address."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address


class GuardedTransport(httpx.AsyncBaseTransport):
    """Sends requests through `inner`, to addresses that the guard has looked at and to no other.

    `inner` must not keep connections: it tells them apart by address, so that one made for a host
    could be given to another host at the same address.
    """

    def __init__(self, guard: AddressGuard, inner: httpx.AsyncBaseTransport) -> None:
        self._guard = guard
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Tries the addresses in their order until one takes the connection."""
        *others, last = await self._guard.addresses(request.url)
        for address in others:
            try:
                return await self._inner.handle_async_request(_pinned(request, address))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._inner.handle_async_request(_pinned(request, last))

    async def aclose(self) -> None:
        """Closes the inner transport."""
        await self._inner.aclose()


def _pinned(request: httpx.Request, address: Address) -> httpx.Request:
    """The same request to an address; `Host` and the name that TLS proves stay."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": _host(request.url).rstrip(".")},
    )


def guarded_client(guard: AddressGuard, *, tls: ssl.SSLContext | None = None) -> httpx.AsyncClient:
    """A client that speaks only to addresses that the guard accepts; the caller closes it.

    It follows no redirect, keeps no connection and no cookie, and takes neither a proxy nor passwords
    from the environment. The number of connections is bounded by its callers.
    """
    connections = httpx.AsyncHTTPTransport(
        verify=tls or True,
        trust_env=False,
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
    )
    return httpx.AsyncClient(
        transport=GuardedTransport(guard, connections),
        trust_env=False,
        follow_redirects=False,
        cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
        timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
    )


_CONNECT_SECONDS: Final = 3.0


class SystemResolver:
    """The machine's own resolver, in a thread for each name.

    A name server that hangs so delays no other name and, these being daemon threads, no shutdown.
    """

    async def resolve(self, host: str) -> Sequence[Address]:
        """All addresses of `host` in the system's order; `OSError` if it has none."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[Address]] = loop.create_future()

        def look_up() -> None:
            try:
                outcome = _look_up(host)
            except (OSError, UnicodeError) as error:
                outcome = error
            with contextlib.suppress(RuntimeError):  # nobody waits any more: the loop is closed
                loop.call_soon_threadsafe(_settle, found, outcome)

        threading.Thread(target=look_up, name="resolve", daemon=True).start()
        return await found


def _look_up(host: str) -> list[Address]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [ip_address(text) for text in dict.fromkeys(str(each[4][0]) for each in found)]


def _settle(
    found: asyncio.Future[list[Address]], outcome: list[Address] | OSError | UnicodeError
) -> None:
    if found.done():
        return
    if isinstance(outcome, list):
        found.set_result(outcome)
    else:
        found.set_exception(outcome)
