"""One notice to one address, over real sockets on loopback."""

import base64
import gzip
import os
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import ip_address
from itertools import count
from typing import Any

import pytest
import standardwebhooks
import trustme

from app.channels.address_guard import (
    LOOPBACK,
    Address,
    AddressGuard,
    Network,
    SystemResolver,
    guarded_client,
    parse_networks,
)
from app.channels.signing import parse_secrets
from app.channels.webhook import Delivered, Endpoint, Failed, GaveUp, Told, WebhookSender
from tests.receivers import (
    HANGS,
    Answer,
    Receiver,
    decides,
    drips,
    never_ends,
    redirects_to,
    says,
)

OPENED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OLD, NEW = ("whsec_" + base64.b64encode(os.urandom(32)).decode() for _ in range(2))


class Names:
    """A resolver whose every look-up of any name gives the next answer; the last one stays."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def resolve(self, host: str) -> Sequence[Address]:
        self.asked.append(host)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [ip_address(each) for each in answer.split()]


@asynccontextmanager
async def sender(
    names: Names | None = None,
    *,
    allowed: tuple[Network, ...] = LOOPBACK,
    limit: timedelta = timedelta(seconds=10),
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[WebhookSender]:
    guard = AddressGuard(resolver=names or SystemResolver(), allowed=allowed)
    async with guarded_client(guard, tls=tls) as client:
        yield WebhookSender(client, limit=limit)


async def tell(sender: WebhookSender, url: str, **data: Any) -> Told:
    return await sender.send(
        Endpoint(url=url, secrets=parse_secrets([NEW, OLD])),
        webhook_id="dlv_1",
        event_type="pause.opened",
        timestamp=OPENED,
        data=data,
    )


async def told(answer: Answer, *, limit: timedelta = timedelta(seconds=10), **data: Any) -> Told:
    async with Receiver(answer) as receiver, sender(limit=limit) as sending:
        return await tell(sending, receiver.url, **data)


# What is sent


async def test_the_public_package_verifies_the_bytes_that_arrive_with_either_secret() -> None:
    async with Receiver() as receiver, sender() as sending:
        await tell(sending, receiver.url, text="ä€😀", nested={"a": [1, None, False]})

    [request] = receiver.received
    for secret in (OLD, NEW):
        notice = standardwebhooks.Webhook(secret).verify(request.body, dict(request.headers))
        assert notice == {
            "type": "pause.opened",
            "timestamp": "2026-01-02T03:04:05Z",
            "data": {"text": "ä€😀", "nested": {"a": [1, None, False]}},
        }
    assert request.method == "POST"
    assert request.headers["content-type"] == "application/json"


async def test_another_attempt_has_the_same_id_and_body_and_its_own_time() -> None:
    seconds = count(1_700_000_000)
    async with (
        Receiver() as receiver,
        guarded_client(AddressGuard(resolver=SystemResolver(), allowed=LOOPBACK)) as client,
    ):
        sending = WebhookSender(client, clock=lambda: next(seconds))
        await tell(sending, receiver.url)
        await tell(sending, receiver.url)

    first, second = receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == "dlv_1"
    assert first.body == second.body
    assert first.headers["webhook-timestamp"] < second.headers["webhook-timestamp"]
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


async def test_without_a_secret_a_notice_goes_out_unsigned() -> None:
    async with Receiver() as receiver, sender() as sending:
        await sending.send(
            Endpoint(url=receiver.url),
            webhook_id="dlv_1",
            event_type="run.completed",
            timestamp=OPENED,
            data={},
        )

    assert "webhook-signature" not in receiver.received[0].headers


async def test_a_receivers_cookie_is_not_sent_back() -> None:
    async with Receiver(Answer(headers={"set-cookie": "a=b"})) as receiver, sender() as sending:
        await tell(sending, receiver.url)
        await tell(sending, receiver.url)

    assert "cookie" not in receiver.received[1].headers


# What is made of the answer


@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_a_2xx_answer_is_a_delivery(status: int) -> None:
    assert await told(Answer(status=status)) == Delivered(status=status)


async def test_a_decision_in_the_answer_is_handed_on_as_it_stands() -> None:
    answer = await told(decides({"approved": True, "feedback": "fine", "odd": [1]}))

    assert isinstance(answer, Delivered)
    assert answer.decision == {"approved": True, "feedback": "fine", "odd": [1]}


@pytest.mark.parametrize(
    "answer",
    [
        says({"decisions": {"approved": True}}),
        says({"decision": None}),
        says(["decision"]),
        says("approved"),
        Answer(status=200, body=b"thank you"),
        Answer(status=200, body=b'{"decision": {"approved": true}'),
        Answer(status=200, body=b'{"decision": NaN}'),
        Answer(status=200, body=b"\xff\xfe\x00"),
        Answer(status=200, body=b"[" * 60_000),
    ],
)
async def test_any_other_answer_is_only_a_delivery(answer: Answer) -> None:
    made = await told(answer)

    assert isinstance(made, Delivered)
    assert made.decision is None


async def test_a_decision_beside_an_error_status_counts_for_nothing() -> None:
    made = await told(says({"decision": {"approved": True}}, status=500))

    assert isinstance(made, Failed)
    assert made.status == 500


@pytest.mark.parametrize("status", [400, 401, 404, 409, 429, 500, 503])
async def test_an_error_status_is_a_failure_that_says_which(status: int) -> None:
    assert await told(Answer(status=status, body=b"no")) == Failed(
        reason=f"answered {status}", status=status, excerpt="no"
    )


async def test_gone_gives_up() -> None:
    assert await told(Answer(status=410, body=b"moved out")) == GaveUp(
        status=410, excerpt="moved out"
    )


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("120", timedelta(minutes=2)),
        (" 7 ", timedelta(seconds=7)),
        ("9" * 5_000, timedelta(days=1)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", timedelta(days=1)),
        (format_datetime(OPENED, usegmt=True), None),
        ("-1", None),
        ("soon", None),
        ("", None),
    ],
)
async def test_retry_after_is_read_and_bounded(header: str, wait: timedelta | None) -> None:
    made = await told(Answer(status=503, headers={"retry-after": header}))

    assert isinstance(made, Failed)
    assert made.retry_after == wait


async def test_a_date_in_retry_after_counts_from_now() -> None:
    later = format_datetime(datetime.fromtimestamp(1_700_000_090, UTC), usegmt=True)
    async with Receiver(Answer(status=429, headers={"retry-after": later})) as receiver:
        guard = AddressGuard(resolver=SystemResolver(), allowed=LOOPBACK)
        async with guarded_client(guard) as client:
            made = await tell(WebhookSender(client, clock=lambda: 1_700_000_000), receiver.url)

    assert isinstance(made, Failed)
    assert made.retry_after == timedelta(seconds=90)


async def test_an_excerpt_is_short_printable_and_without_the_reply_token() -> None:
    body = b"\x00\x1b[31m\r\n got s3cret-token " + "€\u2028".encode() + b"\xff" + b"x" * 5_000
    made = await told(Answer(status=200, body=body), reply={"token": "s3cret-token"})

    assert isinstance(made, Delivered)
    assert made.excerpt.startswith("[31m got *** €")
    assert made.excerpt.isprintable()
    assert len(made.excerpt) <= 200


# Addresses that misbehave


async def test_an_address_that_hangs_is_a_failure_in_bounded_time() -> None:
    made = await told(HANGS, limit=timedelta(seconds=0.2))

    assert made == Failed(reason="no answer within 0.2 s")


@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_that_drips_is_a_failure_in_bounded_time(status: int) -> None:
    made = await told(drips(status), limit=timedelta(seconds=0.2))

    assert isinstance(made, Failed)
    assert made.status == status


async def test_of_an_endless_answer_only_the_first_bytes_are_read() -> None:
    made = await told(never_ends())

    assert made == Delivered(status=200)


async def test_a_decision_after_64_kib_of_answer_is_not_looked_for() -> None:
    made = await told(Answer(status=200, body=b" " * 65_536 + b'{"decision": {"approved": true}}'))

    assert made == Delivered(status=200)


async def test_a_compressed_answer_is_not_unpacked() -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    made = await told(Answer(status=200, headers={"content-encoding": "gzip"}, body=bomb))

    assert made == Delivered(status=200)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(raw=b"HTTP/1.1 204 as told\r\n", chunk=b"x: y\r\n", pause=0.01),
        Answer(raw=b"HTTP/1.1 204 as told\r\n", chunk=b"x: " + b"y" * 16384 + b"\r\n"),
        Answer(raw=b"HTTP/1.1 103 early\r\n\r\n", chunk=b"HTTP/1.1 103 early\r\n\r\n"),
        Answer(raw=b"\r\n", chunk=b"\r\n", pause=0.01),
        Answer(raw=b"220 mail.example ESMTP\r\n", chunk=b"500 what?\r\n", pause=0.01),
    ],
    ids=[
        "headers that drip",
        "endless headers",
        "endless hints",
        "empty lines",
        "another protocol",
    ],
)
async def test_an_answer_that_never_comes_to_its_body_is_a_failure_in_bounded_time(
    answer: Answer,
) -> None:
    made = await told(answer, limit=timedelta(seconds=1))

    assert isinstance(made, Failed)
    assert made.status is None


async def test_an_answer_in_endless_chunks_of_nothing_is_a_failure_in_bounded_time() -> None:
    head = b"HTTP/1.1 200 as told\r\ntransfer-encoding: chunked\r\n\r\n"
    made = await told(
        Answer(raw=head, chunk=b"1;x=" + b"y" * 100 + b"\r\n \r\n", pause=0.01),
        limit=timedelta(seconds=1),
    )

    assert isinstance(made, Failed)
    assert made.status == 200


async def test_an_answer_that_breaks_off_is_a_failure() -> None:
    made = await told(Answer(status=200, headers={"content-length": "100"}, body=b"{"))

    assert isinstance(made, Failed)
    assert made.status == 200


async def test_an_address_where_nobody_listens_is_a_failure() -> None:
    async with Receiver() as receiver:
        url = receiver.url
    async with sender() as sending:
        made = await tell(sending, url)

    assert isinstance(made, Failed)
    assert made.reason.startswith("ConnectError")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    async with (
        Receiver() as other,
        Receiver(redirects_to(other.url, status)) as receiver,
        sender() as sending,
    ):
        made = await tell(sending, receiver.url)

    assert isinstance(made, Failed)
    assert made.reason == f"answered {status}: redirects are not followed"
    assert other.connections == 0


# The address guard on the wire


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "https://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://2130706433:{port}/",
        "http://0x7f.1:{port}/",
        "http://0177.0.0.1:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://[::ffff:7f00:1]:{port}/",
        "http://\uff11\uff12\uff17.\uff10.\uff10.\uff11:{port}/",  # of full width
        "http://127\u30020\u30020\u30021:{port}/",  # with ideographic full stops
        "http://017700000001:{port}/",
        "http://127.1:{port}/",
        "http://[::127.0.0.1]:{port}/",
        "http://[64:ff9b::7f00:1]:{port}/",
        "http://localhost.:{port}/",
        "http://0.0.0.0:{port}/",
        "http://approver.example@127.0.0.1:{port}/",
        "http://127.0.0.1:{port}\\@approver.example/",
        "//127.0.0.1:{port}/",
        "http://[::1/",
        "",
    ],
)
async def test_without_permission_no_connection_to_loopback_is_made(url: str) -> None:
    async with Receiver() as receiver, sender(allowed=()) as sending:
        made = await tell(sending, url.format(port=receiver.port))

    assert isinstance(made, Failed)
    assert made.status is None
    assert receiver.connections == 0


async def test_a_name_is_resolved_once_and_the_connection_goes_to_what_was_checked() -> None:
    names = Names("127.0.0.1", "127.0.0.2")
    async with (
        Receiver() as receiver,
        sender(names, allowed=parse_networks(["127.0.0.1"])) as sending,
    ):
        url = f"http://approver.example:{receiver.port}/hook"
        first = await tell(sending, url)
        asked_by_the_first = list(names.asked)
        second = await tell(sending, url)

    assert first == Delivered(status=204)
    assert asked_by_the_first == ["approver.example"]
    assert receiver.received[0].headers["host"] == f"approver.example:{receiver.port}"
    assert isinstance(second, Failed)
    assert "not public" in second.reason
    assert receiver.connections == 1


async def test_of_several_addresses_the_next_is_tried_where_nobody_listens() -> None:
    async with Receiver() as receiver, sender(Names("127.0.0.3 127.0.0.1")) as sending:
        made = await tell(sending, f"http://approver.example:{receiver.port}/hook")

    assert made == Delivered(status=204)


async def test_the_systems_resolver_finds_names_and_a_name_it_does_not_know_is_a_failure() -> None:
    async with Receiver() as receiver, sender() as sending:
        known = await tell(sending, f"http://localhost:{receiver.port}/hook")
        unknown = await tell(sending, f"http://{'a' * 64}.example/")

    assert known == Delivered(status=204)
    assert unknown == Failed(reason="The host name does not resolve.")


async def test_tls_proves_the_name_and_not_the_address() -> None:
    authority = trustme.CA()
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    for name, expected in [("approver.example", Delivered), ("other.example", Failed)]:
        serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert(name).configure_cert(serving)
        async with (
            Receiver(tls=serving) as receiver,
            sender(Names("127.0.0.1"), tls=trusting) as sending,
        ):
            made = await tell(sending, f"https://approver.example:{receiver.port}/hook")

        assert isinstance(made, expected)
        assert len(receiver.received) == (1 if expected is Delivered else 0)
