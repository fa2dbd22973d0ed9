"""Which addresses a notice may go to, judged without a network."""

from collections.abc import Sequence
from ipaddress import ip_address

import httpx
import pytest

from app.channels.address_guard import (
    LOOPBACK,
    Address,
    AddressGuard,
    AddressRefused,
    BadNetwork,
    Network,
    parse_networks,
)


class Always:
    """A resolver that finds the same addresses for every name."""

    def __init__(self, *found: str) -> None:
        self.found = [ip_address(each) for each in found]

    async def resolve(self, host: str) -> Sequence[Address]:
        return self.found


class Nothing:
    """A resolver that knows no name."""

    async def resolve(self, host: str) -> Sequence[Address]:
        raise OSError(host)


async def judged(url: str, *found: str, allowed: tuple[Network, ...] = ()) -> list[str]:
    guard = AddressGuard(resolver=Always(*found), allowed=allowed)
    return [str(each) for each in await guard.addresses(httpx.URL(url))]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.1.2.3",
        "172.31.255.255",
        "192.168.0.1",
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "fe80::1",
        "fec0::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
    ],
)
async def test_an_address_that_is_not_public_is_refused_by_name_and_as_such(address: str) -> None:
    host = f"[{address}]" if ":" in address else address

    with pytest.raises(AddressRefused):
        await judged("https://approver.example/hook", address)
    with pytest.raises(AddressRefused):
        await judged(f"https://{host}/hook")


@pytest.mark.parametrize("address", ["93.184.216.34", "172.32.0.1", "2606:2800:220:1::1"])
async def test_a_public_address_is_accepted_over_https(address: str) -> None:
    assert await judged("https://approver.example/hook", address) == [address]


async def test_an_ipv4_address_inside_an_ipv6_one_is_taken_out_and_judged() -> None:
    assert await judged("https://a.example", "::ffff:93.184.216.34") == ["93.184.216.34"]
    assert await judged("https://a.example", "64:ff9b::5db8:d822") == ["93.184.216.34"]


async def test_one_private_address_among_public_ones_refuses_the_name() -> None:
    with pytest.raises(AddressRefused, match=r"10\.0\.0\.0/8"):
        await judged("https://approver.example", "93.184.216.34", "10.0.0.1")


@pytest.mark.parametrize(
    "host",
    ["2130706433", "0x7f000001", "0x7f.1", "0177.1", "127.1", "017700000001", "127.0.0.1."],
)
async def test_a_number_that_some_resolvers_read_as_an_address_is_refused(host: str) -> None:
    with pytest.raises(AddressRefused):
        await judged(f"https://{host}/", "93.184.216.34")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://approver.example/", "only https"),
        ("ftp://approver.example/", "not an https URL"),
        ("file:///etc/passwd", "not an https URL"),
        ("https:///hook", "not an https URL"),
        ("/hook", "not an https URL"),
        ("https://name@approver.example/", "name or a password"),
        ("https://name:word@approver.example/", "name or a password"),
        ("https://approver.example:word@127.0.0.1/", "name or a password"),
    ],
)
async def test_a_url_of_another_form_is_refused(url: str, says: str) -> None:
    with pytest.raises(AddressRefused, match=says):
        await judged(url, "93.184.216.34")


async def test_an_allowed_network_may_be_private_and_spoken_to_over_http() -> None:
    allowed = parse_networks(["10.1.0.0/16"])

    assert await judged("http://bot.internal/", "10.1.2.3", allowed=allowed) == ["10.1.2.3"]
    with pytest.raises(AddressRefused):
        await judged("http://bot.internal/", "10.2.2.3", allowed=allowed)
    with pytest.raises(AddressRefused, match="only https"):
        await judged("http://bot.internal/", "10.1.2.3", "93.184.216.34", allowed=allowed)


async def test_loopback_is_allowed_where_it_is_named() -> None:
    assert await judged("http://127.0.0.1:9000/", allowed=LOOPBACK) == ["127.0.0.1"]
    assert await judged("http://[::1]:9000/", allowed=LOOPBACK) == ["::1"]


async def test_a_name_without_an_address_is_refused() -> None:
    with pytest.raises(AddressRefused, match="no address"):
        await judged("https://approver.example/")
    with pytest.raises(AddressRefused, match="does not resolve"):
        await AddressGuard(resolver=Nothing()).addresses(httpx.URL("https://approver.example/"))


@pytest.mark.parametrize("text", ["", "ten", "10.0.0.1/8", "10.0.0.0/33"])
def test_a_wrong_network_is_shown(text: str) -> None:
    with pytest.raises(BadNetwork, match=repr(text)):
        parse_networks(["127.0.0.0/8", text])
