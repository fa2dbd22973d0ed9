"""Who may what: every route by scope and by tenant, and who decides a pause."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
from jsonschema import Draft202012Validator

from app.api.auth import SESSION
from app.authoring import Approval
from app.domain.principal import Scope
from tests.described import operations
from tests.keyring import APPROVER, EVERY_SCOPE, holding, key
from tests.serving import Service, decide, paused, service
from tests.workflows.councils import Council

Json = dict[str, Any]
YES: Json = {"approved": True}
NO: Json = {"approved": False}
NEW_RUN: Json = {"assistant_id": "council", "input": "it"}
BODIES: Mapping[str, Json] = {
    "create_thread": {},
    "start_run": {"workflow": "council", "input": "it"},
    "resume_thread": {"decision": YES},
    "extend_pause": {"expires_at": "2999-01-01T00:00:00Z"},
    "langgraph_create_run": NEW_RUN,
    "langgraph_wait_for_new_run": NEW_RUN,
    "langgraph_stream_new_run": NEW_RUN,
    "langgraph_update_thread": {"metadata": {}},
    "langgraph_get_state_of_checkpoint": {"checkpoint": {}},
    "langgraph_get_history": {},
    "langgraph_create_thread": {},
    "langgraph_search_threads": {},
    "langgraph_count_threads": {},
    "langgraph_search_assistants": {},
    "langgraph_count_assistants": {},
}
NOBODYS = {"name", "assistant_id"}
"""What workflows are called, which are served to everybody."""


class Desk:
    """A service that asks for keys, and its callers by name."""

    def __init__(self, served: Service, clients: AsyncExitStack) -> None:
        self.served = served
        self._clients = clients

    async def caller(self, name: str, **more: Any) -> httpx.AsyncClient:
        secret = await key(self.served.site.database, name, **more)
        return await self._clients.enter_async_context(holding(self.served.client, secret))

    async def approver(self, name: str, *groups: str) -> httpx.AsyncClient:
        return await self.caller(name, scopes=APPROVER, groups=groups)


@asynccontextmanager
async def desk(database_url: str, council: Council) -> AsyncGenerator[Desk]:
    async with (
        service(database_url, [council.workflow], is_open=False) as served,
        AsyncExitStack() as clients,
    ):
        yield Desk(served, clients)


async def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def asks(method: str, path: str, name: str, ids: Mapping[str, str]) -> dict[str, Any]:
    body = BODIES.get(name)
    if name == "resume_thread":
        body = {**BODIES[name], "pause_id": ids["pause_id"]}
    filled = re.sub(r"\{(\w+)\}", lambda match: ids[match[1]], path)
    return {"method": method, "url": filled, "json": body}


def ids_of(run: Json, delivery: str) -> dict[str, str]:
    return {
        "thread_id": run["thread_id"],
        "run_id": run["id"],
        "pause_id": run["pause"]["id"],
        "delivery_id": delivery,
        "checkpoint_id": run["id"],
        "name": "council",
        "assistant_id": "council",
    }


async def one_delivery(served: Service, run: Json) -> str:
    """A dead notice of the run."""
    await served.site.database.fetch(
        "insert into deliveries (thread_id, id, tenant, run_id, pause_id, event_type, event_sequence, channel, "
        "status, address) values ($1, 'dlv_1', 'default', $2, $3, 'pause.opened', 1, 'desk', 'dead', 'desk')",
        run["thread_id"],
        run["id"],
        run["pause"]["id"],
    )
    return "dlv_1"


async def test_another_tenants_ids_are_not_there_on_any_route(database_url: str) -> None:
    async with desk(database_url, Council(Approval())) as at:
        run = await paused(await at.caller("ann"), "council")
        ids = ids_of(run, await one_delivery(at.served, run))
        before = (await (await at.caller("ann")).get(f"/pauses/{ids['pause_id']}")).json()
        stranger = await at.caller("ann", tenant="elsewhere")
        walked = 0
        for method, path, operation in operations():
            if not set(re.findall(r"\{(\w+)\}", path)) - NOBODYS:
                continue
            asked = asks(method, path, operation["operationId"], ids)
            answer = await stranger.request(**asked)
            assert await refusal(answer) == (404, "not_found"), (method, path, answer.text)
            told = answer.text.replace(ids["thread_id"], "").replace(ids["run_id"], "")
            assert "council" not in told
            walked += 1
        assert walked >= 25
        for path in ("/threads", "/pauses", "/deliveries"):
            assert (await stranger.get(path)).json()["items"] == [], path
        watched = (await stranger.get("/audit")).json()["items"]
        assert [each["action"] for each in watched] == ["key_created"]
        after = (await (await at.caller("ann")).get(f"/pauses/{ids['pause_id']}")).json()
        assert after == before


async def test_every_route_needs_the_scope_that_its_description_names(database_url: str) -> None:
    async with desk(database_url, Council(Approval())) as at:
        run = await paused(await at.caller("ann"), "council")
        ids = ids_of(run, await one_delivery(at.served, run))
        holders = {
            scope: await at.caller(scope.replace(":", "-"), scopes=[scope]) for scope in Scope
        }
        public: set[str] = set()
        for method, path, operation in operations():
            asked = asks(method, path, operation["operationId"], ids)
            if path == SESSION:  # by which one becomes known
                continue
            if "security" not in operation:
                assert (await at.served.client.request(**asked)).is_success
                public.add(path)
                continue
            assert await refusal(await at.served.client.request(**asked)) == (
                401,
                "unauthenticated",
            )
            needed = [scope for each in operation["security"] for scope in each["bearer"]]
            for scope, holder in holders.items():
                if scope not in needed:
                    answer = await holder.request(**asked)
                    assert await refusal(answer) == (403, "missing_scope"), (method, path, scope)
        assert public <= {"/livez", "/readyz", "/metrics"}
        assert (await holders[Scope.RUNS_READ].get(f"/pauses/{ids['pause_id']}")).json()[
            "status"
        ] == "open"


async def test_who_is_let_in_by_a_scope_may_do_what_it_is_for(database_url: str) -> None:
    async with desk(database_url, Council(Approval())) as at:
        writer = await at.caller("w", scopes=[Scope.RUNS_WRITE, Scope.RUNS_READ])
        run = await paused(writer, "council")
        only = await at.caller("d", scopes=[Scope.DECISIONS_WRITE])
        assert (await decide(only, run, NO)).json()["status"] == "completed"
        assert (
            await (await at.caller("c", scopes=[Scope.DELIVERIES])).get("/deliveries")
        ).is_success
        assert (await (await at.caller("a", scopes=[Scope.AUDIT])).get("/audit")).is_success


async def test_the_same_thread_id_is_another_thread_for_another_tenant(database_url: str) -> None:
    async with desk(database_url, Council(Approval())) as at:
        ann, eve = await at.caller("ann"), await at.caller("ann", tenant="elsewhere")
        for caller in (ann, eve):
            assert (await caller.post("/threads", json={"id": "first"})).status_code == 201
        body = {"workflow": "council", "input": "it"}
        headers = {"Idempotency-Key": "k-1"}
        mine = await ann.post("/threads/first/runs", json=body, headers=headers)
        theirs = await eve.post("/threads/first/runs", json=body, headers=headers)
        assert mine.json()["id"] != theirs.json()["id"]
        assert (await eve.get(f"/threads/first/runs/{mine.json()['id']}")).status_code == 404
        assert (await ann.delete("/threads/first")).status_code == 409


async def test_only_named_approvers_and_members_of_named_groups_decide(database_url: str) -> None:
    council = Council(Approval(approvers=["ann", "group:finance"]))
    async with desk(database_url, council) as at:
        caller = await at.caller("caller")
        for name, groups, is_asked in (
            ("ann", (), True),
            ("bob", ("finance", "it"), True),
            ("carl", ("it",), False),
            ("finance", (), False),
            ("Ann", (), False),
        ):
            run = await paused(caller, "council")
            approver = await at.approver(name, *groups)
            shown = (await approver.get(f"/pauses/{run['pause']['id']}")).json()
            assert shown["you_may_decide"] is is_asked
            if not is_asked:
                for decision in (YES, NO):
                    refused = await decide(approver, run, decision)
                    assert await refusal(refused) == (403, "not_an_approver")
                assert (await caller.get(f"/pauses/{run['pause']['id']}")).json()[
                    "status"
                ] == "open"
            else:
                done = (await decide(approver, run, YES)).json()
                assert done["pauses"][0]["decision"]["by"] == name
        assert council.done == ["the wall"] * 2


async def test_nobody_decides_in_anothers_name_without_the_scope(database_url: str) -> None:
    council = Council(Approval(approvers=["ann"]))
    async with desk(database_url, council) as at:
        run = await paused(await at.caller("caller"), "council")
        bob = await at.approver("bob")
        forged = await decide(bob, run, {**YES, "by": "ann"})
        assert await refusal(forged) == (403, "may_not_act_as")
        bot = await at.caller("slack", scopes=[*APPROVER, Scope.DECISIONS_ACT_AS])
        for reserved in ("channel:desk", "system:deadline", "group:finance"):
            refused = await decide(bot, run, {**YES, "by": reserved})
            assert await refusal(refused) == (422, "invalid_decision")
        assert await refusal(await decide(bot, run, YES)) == (403, "not_an_approver")
        done = (await decide(bot, run, {**YES, "by": "ann"})).json()
        decision = done["pauses"][0]["decision"]
        assert (decision["by"], decision["sent_by"]) == ("ann", "slack")
        rows = await at.served.site.database.fetch(
            "select action, by, credential, data->>'code' as code, data from audit "
            "where thread_id = $1 order by sequence",
            run["thread_id"],
        )
        assert [(row["action"], row["by"], row["code"]) for row in rows] == [
            ("refused", "bob", "may_not_act_as"),
            *[("refused", "slack", "invalid_decision")] * 3,
            ("refused", "slack", "not_an_approver"),
            ("decided", "ann", None),
        ]
        assert all(row["credential"].startswith("key:key_") for row in rows)
        assert rows[-1]["data"]["decision"]["sent_by"] == "slack"


async def test_a_bot_speaks_for_members_of_its_own_groups_only(database_url: str) -> None:
    council = Council(Approval(approvers=["group:finance"], quorum=2))
    async with desk(database_url, council) as at:
        run = await paused(await at.caller("caller"), "council")
        scopes = [*APPROVER, Scope.DECISIONS_ACT_AS]
        outside = await at.caller("it-bot", scopes=scopes, groups=["it"])
        inside = await at.caller("bot", scopes=scopes, groups=["finance"])
        refused = await decide(outside, run, {**YES, "by": "ann"})
        assert await refusal(refused) == (403, "not_an_approver")
        voted = (await decide(inside, run, {**YES, "by": "ann"})).json()
        (vote,) = voted["pause"]["votes"]
        assert (vote["by"], vote["sent_by"]) == ("ann", "bot")
        again = await decide(await at.approver("ann", "finance"), run, YES)
        assert await refusal(again) == (409, "already_voted")
        assert (await decide(inside, run, {**YES, "by": "bob"})).json()["status"] == "completed"


async def test_whom_the_service_knows_need_not_say_who_decides(database_url: str) -> None:
    async with desk(database_url, Council(Approval())) as at:
        run = await paused(await at.caller("caller"), "council")
        ann = await at.approver("ann")
        schema = (await ann.get(f"/pauses/{run['pause']['id']}")).json()["response_schema"]
        Draft202012Validator(schema).validate(YES)
        assert (await decide(ann, run, YES)).json()["status"] == "completed"


async def test_who_has_voted_is_told_so_and_two_keys_are_one_vote(database_url: str) -> None:
    async with desk(database_url, Council(Approval(quorum=2))) as at:
        run = await paused(await at.caller("caller"), "council")
        ann, again, bob = [await at.approver(name) for name in ("ann", "ann", "bob")]
        voted = (await decide(ann, run, YES)).json()
        assert voted["pause"]["you_may_decide"] is False
        assert await refusal(await decide(again, run, YES)) == (409, "already_voted")
        seen = (await bob.get("/pauses?status=open")).json()["items"]
        assert [each["you_may_decide"] for each in seen] == [True]
        reader = await at.caller("r", scopes=[Scope.RUNS_READ])
        seen = (await reader.get("/pauses?status=open")).json()["items"]
        assert [each["you_may_decide"] for each in seen] == [False]


async def test_votes_of_two_under_one_idempotency_key_are_two(database_url: str) -> None:
    async with desk(database_url, Council(Approval(quorum=2))) as at:
        run = await paused(await at.caller("caller"), "council")
        headers = {"Idempotency-Key": "yes"}
        ann, bob = await at.approver("ann"), await at.approver("bob")
        assert (await decide(ann, run, YES, headers=headers)).is_success
        again = await decide(ann, run, YES, headers=headers)
        assert again.headers["idempotency-replayed"] == "true"
        assert (await decide(bob, run, YES, headers=headers)).json()["status"] == "completed"


async def test_who_asked_for_a_run_may_reject_it_and_not_approve_it(database_url: str) -> None:
    async with desk(database_url, Council(Approval())) as at:
        caller = await at.caller("caller", scopes=EVERY_SCOPE)
        run = await paused(caller, "council")
        own = await decide(caller, run, YES)
        assert await refusal(own) == (403, "requester_may_not_approve")
        as_themselves = await decide(caller, run, {**YES, "by": "caller"})
        assert await refusal(as_themselves) == (403, "requester_may_not_approve")
        done = (await decide(caller, run, NO)).json()
        assert done["output"] == "Tool error: the call was rejected by caller"
