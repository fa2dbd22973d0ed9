"""What cannot be taken is refused with a 4xx problem on every route, nothing is stored, and the service is fine."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import asyncpg
import httpx
import pytest

from examples.errands import errands
from tests.serving import Service, paused, service

JSON = {"Content-Type": "application/json"}

BODIES: Mapping[str, bytes] = {
    "nothing but a blank": b" ",
    "no JSON": b"{",
    "two values": b"{} {}",
    "a trailing comma": b'{"a":1,}',
    "a comment": b"{}//",
    "single quotes": b"{'a':1}",
    "NaN": b'{"metadata":{"a":NaN}}',
    "infinity": b'{"metadata":{"a":-Infinity}}',
    "a number beyond all": b'{"metadata":{"a":1e400}}',
    "an integer of 30 digits": b'{"metadata":{"a":' + b"1" * 30 + b"}}",
    "an integer of 5000 digits": b'{"metadata":{"a":' + b"1" * 5000 + b"}}",
    "an integer just beyond 64 bits": b'{"metadata":{"a":9223372036854775808}}',
    "an escaped NUL": b'{"metadata":{"a":"\\u0000"}}',
    "a NUL in a name": b'{"metadata":{"\\u0000":1}}',
    "a raw NUL": b'{"metadata":{"a":"\x00"}}',
    "a lone surrogate": b'{"metadata":{"a":"\\ud800"}}',
    "the second half of a pair": b'{"metadata":{"\\udc00":1}}',
    "a surrogate in bytes": b'{"metadata":{"a":"\xed\xa0\x80"}}',
    "not UTF-8": b'{"metadata":{"a":"\xff"}}',
    "UTF-16": '{"metadata":{}}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"metadata":{}}',
    "the same key twice": b'{"metadata":{"a":1,"a":2}}',
    "65 levels": b'{"metadata":' + b'{"a":' * 65 + b"1" + b"}" * 66,
    "10000 arrays": b'{"metadata":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "10000 open arrays": b"[" * 10_000,
    "100000 objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "an array": b"[]",
    "a text": b'"x"',
    "a number": b"1",
    "unknown fields": b'{"unknown":1}',
    "an unknown field with a strange name": b'{"a/b~c\\u202e":1}',
}

POSTS = (
    "/threads",
    "/threads/{thread_id}/runs",
    "/threads/{thread_id}/runs/{run_id}/cancel",
    "/threads/{thread_id}/resume",
    "/deliveries/dlv_1/retry",
    "/langgraph/threads",
    "/langgraph/threads/{thread_id}/runs/wait",
)


@pytest.fixture
async def served(database_url: str) -> AsyncIterator[Service]:
    async with service(database_url, [errands]) as each:
        yield each


async def everything_stored(database_url: str) -> Mapping[str, object]:
    """All rows of what callers can make, but the attempts that were refused."""
    connection = await asyncpg.connect(database_url)
    try:
        return {
            table: await connection.fetchval(f"select json_agg({table})::text from {table}")
            for table in ("threads", "runs", "pauses", "events", "idempotency_keys")
        }
    finally:
        await connection.close()


def is_refused(answer: httpx.Response, *codes: str) -> bool:
    """Whether it is a 4xx problem, whole and in its own media type."""
    problem = answer.json()
    return (
        400 <= answer.status_code < 500
        and answer.headers["content-type"] == "application/problem+json"
        and problem["status"] == answer.status_code
        and bool(problem["title"] and problem["detail"] and problem["code"])
        and (not codes or problem["code"] in codes)
    )


async def test_every_body_that_cannot_be_taken_is_refused_and_nothing_is_stored(
    served: Service, database_url: str
) -> None:
    run = await paused(served.client)
    before = await everything_stored(database_url)
    for route in POSTS:
        path = route.format(thread_id=run["thread_id"], run_id=run["id"])
        for what, body in BODIES.items():
            answer = await served.client.post(path, content=body, headers=JSON)
            assert answer.status_code == 422, (path, what, answer.text)
            assert is_refused(answer, "invalid_request"), (path, what, answer.text)
    assert await everything_stored(database_url) == before
    await still_fine(served, run)


async def still_fine(served: Service, run: Mapping[str, Any]) -> None:
    body = {"pause_id": run["pause"]["id"], "decision": {"approved": True, "by": "maria"}}
    done = await served.client.post(f"/threads/{run['thread_id']}/resume", json=body)
    assert (done.status_code, done.json()["status"]) == (200, "completed")


WRONG_FIELDS: Mapping[str, list[tuple[object, str]]] = {
    "/threads": [
        ({"id": 1}, "/id"),
        ({"id": ""}, "/id"),
        ({"id": "a b"}, "/id"),
        ({"id": "a/b"}, "/id"),
        ({"id": "-a"}, "/id"),
        ({"id": "a\n"}, "/id"),
        ({"id": "ä"}, "/id"),
        ({"id": "a" * 129}, "/id"),
        ({"id": "a" * 10_000}, "/id"),
        ({"workflow": 1}, "/workflow"),
        ({"workflow": "a" * 10_000}, "/workflow"),
        ({"metadata": None}, "/metadata"),
        ({"metadata": []}, "/metadata"),
        ({"metadata": "{}"}, "/metadata"),
    ],
    "/threads/{thread_id}/runs": [
        ({"workflow": "errands"}, "/input"),
        ({"input": {"text": "x"}}, "/workflow"),
        ({"workflow": None, "input": {}}, "/workflow"),
        ({"workflow": "errands", "input": {"text": "x"}, "metadata": 1}, "/metadata"),
        ({"workflow": "errands", "input": {"text": "x"}, "if_paused": "x"}, "/if_paused"),
        ({"workflow": "errands", "input": {"text": "x"}, "if_paused": None}, "/if_paused"),
        ({"workflow": "errands", "input": {"text": "x"}, "if_not_exists": 1}, "/if_not_exists"),
    ],
    "/threads/{thread_id}/resume": [
        ({"pause_id": "pau_1"}, "/decision"),
        ({"decision": {"approved": True, "by": "m"}}, "/pause_id"),
        ({"pause_id": 1, "decision": {}}, "/pause_id"),
        ({"pause_id": "", "decision": {}}, "/pause_id"),
        ({"pause_id": "a" * 10_000, "decision": {}}, "/pause_id"),
        ({"pause_id": ["pau_1"], "decision": {}}, "/pause_id"),
    ],
}


async def test_a_wrong_field_is_pointed_at(served: Service, database_url: str) -> None:
    run = await paused(served.client)
    before = await everything_stored(database_url)
    for route, bodies in WRONG_FIELDS.items():
        path = route.format(thread_id=run["thread_id"])
        for body, pointer in bodies:
            answer = await served.client.post(path, json=body)
            assert is_refused(answer, "invalid_request"), (path, body, answer.text)
            assert pointer in [each["pointer"] for each in answer.json()["errors"]], answer.text
    assert await everything_stored(database_url) == before


async def test_what_was_sent_is_never_quoted(served: Service) -> None:
    run = await paused(served.client)
    secret = "hunter2-and-more"
    for path in POSTS:
        for body in (
            {"id": [secret], "metadata": secret, "workflow": {"a": secret}, "input": secret},
            {"pause_id": {"a": secret}, "decision": secret, "callback": {"url": [secret]}},
            {"pause_id": run["pause"]["id"], "decision": {"approved": secret, "by": "m"}},
        ):
            answer = await served.client.post(
                path.format(thread_id=run["thread_id"], run_id=run["id"]), json=body
            )
            assert is_refused(answer), answer.text
            assert secret not in answer.text


STRANGE = (
    "%00",
    "a%00b",
    "%ff%fe",
    "%c3%28",
    "%ed%a0%80",
    "%0d%0aX-Evil:%201",
    "..%2f..%2fetc",
    "%20",
    "%F0%9F%92%A9",
    "'%20or%201=1--",
    "a" * 200,
    "a" * 7_000,
    "_x",
    "%25",
)


async def test_a_strange_id_in_a_path_is_as_unknown_as_any_other(served: Service) -> None:
    client, run = served.client, await paused(served.client)
    for strange in STRANGE:
        for method, path in (
            ("GET", f"/threads/{strange}"),
            ("DELETE", f"/threads/{strange}"),
            ("GET", f"/threads/{strange}/runs"),
            ("GET", f"/threads/{run['thread_id']}/runs/{strange}"),
            ("POST", f"/threads/{run['thread_id']}/runs/{strange}/cancel"),
            ("GET", f"/pauses/{strange}"),
            ("GET", f"/workflows/{strange}"),
            ("GET", f"/deliveries/{strange}"),
            ("POST", f"/deliveries/{strange}/retry"),
        ):
            answer = await client.request(method, path)
            assert answer.status_code == 404, (method, path, answer.text)
            assert is_refused(answer, "not_found"), (method, path, answer.text)
        body = {"pause_id": "pau_1", "decision": {"approved": True, "by": "m"}}
        answer = await client.post(f"/threads/{strange}/resume", json=body)
        assert is_refused(answer, "not_found"), answer.text
        errand = {"workflow": "errands", "input": {"text": "x"}}
        answer = await client.post(f"/threads/{strange}/runs", json=errand)
        assert is_refused(answer, "not_found"), answer.text
        answer = await client.post(
            f"/threads/{strange}/runs", json={**errand, "if_not_exists": "create"}
        )
        assert answer.status_code in (404, 422), answer.text  # an escaped slash is another path
        assert is_refused(answer), answer.text


QUERIES = (
    "limit=0",
    "limit=101",
    "limit=-1",
    "limit=x",
    "limit=1.5",
    "limit=",
    "limit=99999999999999999999999999",
    "limit=" + "9" * 5000,
    "limit=%00",
    "cursor=",
    "cursor=x",
    "cursor=%00",
    "cursor=!!!!",
    "cursor=" + "A" * 401,
    "cursor=LTEuYQ",  # -1.a
    "cursor=OTk5OTk5OTk5OTk5OTk5OTk5OTk5LmE",  # a time beyond all
    "cursor=MTcwMDAwMDAwMDAwMDAwMC4A",  # a NUL for an id
    "unknown=1",
)
FILTERS = {
    "/pauses": (
        "status=x",
        "status=%00",
        "kind=OPEN",
        "level=1",
        "workflow=%00",
        "workflow=" + "a" * 200,
        "channel=%ff",
        "thread_id=%00",
        "thread_id=a/b",
        "run_id=",
        "run_id=%ed%a0%80",
    ),
    "/deliveries": ("status=open", "channel=%00", "thread_id=%00", "run_id=run_1"),
}


async def test_a_wrong_query_is_refused(served: Service) -> None:
    thread = (await served.client.post("/threads")).json()["id"]
    paths = ("/threads", f"/threads/{thread}/runs", "/pauses", "/deliveries")
    asked = [(path, each) for path in paths for each in QUERIES]
    asked += [(path, each) for path, filters in FILTERS.items() for each in filters]
    for path, query in asked:
        answer = await served.client.get(f"{path}?{query}")
        assert answer.status_code == 422, (path, query, answer.text)
        assert is_refused(answer, "invalid_request"), answer.text
        assert answer.json()["errors"][0]["pointer"].startswith("/query/"), answer.text


async def test_only_json_is_taken(served: Service) -> None:
    for content_type in (
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json; charset=utf-16",
        "application/jsonp",
        "text/json",
        "application/xml",
    ):
        headers = {"Content-Type": content_type} if content_type else {}
        for path in ("/threads", "/threads/t/runs", "/threads/t/resume", "/deliveries/d/retry"):
            answer = await served.client.post(path, content=b"{}", headers=headers)
            assert answer.status_code == 415, (content_type, answer.text)
            assert is_refused(answer, "unsupported_media_type")
    packed = await served.client.post(
        "/threads", content=b"{}", headers=JSON | {"Content-Encoding": "gzip"}
    )
    assert packed.status_code == 415
    fine = await served.client.post(
        "/threads", content=b"{}", headers={"Content-Type": 'Application/JSON; charset="UTF-8"'}
    )
    assert fine.status_code == 201


async def test_a_body_over_the_limit_is_refused_whether_it_says_so_or_not(served: Service) -> None:
    large = b'{"metadata":{"a":"' + b"x" * (10 * 1024 * 1024) + b'"}}'

    async def in_chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(large), 65_536):
            yield large[at : at + 65_536]

    said = await served.client.post("/threads", content=large, headers=JSON)
    assert said.status_code == 413
    assert is_refused(said, "body_too_large")
    unsaid = await served.client.post("/threads", content=in_chunks(), headers=JSON)
    assert unsaid.status_code == 413
    assert (await served.client.get("/threads")).json()["items"] == []


async def test_the_limit_of_bodies_is_a_setting(database_url: str) -> None:
    async with service(database_url, [errands], max_body_bytes=1000) as served:
        fits = b'{"metadata":{"a":"' + b"x" * 979 + b'"}}'
        assert len(fits) == 1000
        assert (await served.client.post("/threads", content=fits, headers=JSON)).status_code == 201
        over = fits + b" "
        assert (await served.client.post("/threads", content=over, headers=JSON)).status_code == 413


async def test_a_body_of_almost_a_megabyte_is_taken(served: Service) -> None:
    thread = (await served.client.post("/threads")).json()["id"]
    text = "x" * 1_000_000
    started = await served.client.post(
        f"/threads/{thread}/runs", json={"workflow": "errands", "input": {"text": text}}
    )
    assert started.status_code in (201, 202)


async def test_long_targets_and_headers_are_refused(served: Service) -> None:
    long_path = await served.client.get("/threads/" + "a" * 9000)
    assert (long_path.status_code, long_path.json()["code"]) == (414, "target_too_long")
    long_query = await served.client.get("/threads?cursor=" + "a" * 9000)
    assert long_query.status_code == 414
    headers = await served.client.get("/threads", headers={"X-Large": "a" * 70_000})
    assert (headers.status_code, headers.json()["code"]) == (431, "headers_too_large")


async def test_unknown_paths_and_methods_are_problems(served: Service) -> None:
    for method, path, status in (
        ("GET", "/nope", 404),
        ("GET", "/threads/", 404),
        ("GET", "//threads", 404),
        ("GET", "/threads/a/b/c", 404),
        ("PUT", "/threads", 405),
        ("PATCH", "/threads/a", 405),
        ("POST", "/pauses", 405),
        ("HEAD", "/threads", 405),
        ("TRACE", "/threads", 405),
        ("DELETE", "/workflows/a", 405),
        ("GET", "/threads/a/resume", 405),
    ):
        url = f"http://{served.client.base_url.netloc.decode()}{path}"
        answer = await served.client.request(method, url)
        assert answer.status_code == status, (method, path)
        if method != "HEAD":
            assert is_refused(answer, "not_found", "method_not_allowed"), answer.text
        if status == 405:
            assert answer.headers["allow"]


async def test_requests_that_break_off_leave_the_service_fine(served: Service) -> None:
    port = served.client.base_url.port
    for begun in (
        b"POST /threads HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{",
        b"POST /threads HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"GET /threads HTTP/1.1\r\nHo",
    ):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begun)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
    assert (await served.client.get("/threads")).json()["items"] == []
