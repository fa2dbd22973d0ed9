"""An agent made by LangChain, served as it is: it pauses, its service is killed, and it is gone on with."""

from pathlib import Path

from tests.service import processes
from tests.workflows.effects import VARIABLE, Effects
from tests.workflows.movers import SERVED

LEASE = 1.0


async def test_an_unchanged_agent_survives_kills_and_its_finished_tool_is_run_once(
    tmp_path: Path, database_url: str
) -> None:
    effects = Effects(tmp_path / "effects")
    environment = {VARIABLE: str(effects.path), "SIGNOFF_LEASE_SECONDS": str(LEASE)}
    given = {"messages": [{"role": "user", "content": "Write to Ann."}]}
    with processes(
        tmp_path, workflows=SERVED, database_url=database_url, environment=environment
    ) as begun:
        first, second = begun.begin_serving(), begun.begin_serving()
        await first.ready()
        async with first.api() as api:
            run = await api.started("letters", given)
        assert (run["status"], run["pause"]["kind"]) == ("paused", "approval")
        assert run["pause"]["call"]["arguments"] == {"to": "ann", "text": "hello"}
        first.kill()

        await second.ready()
        async with second.api() as api:
            taken = await api.decide(run["pause"], prefer="respond-async")
            assert taken.status_code == 202
            await effects.wait_for("stamping")
            third = begun.begin_serving()
            second.kill()

        await third.ready()
        await effects.wait_for("stamping", times=2)
        effects.permit("stamp")
        async with third.api() as api:
            ended = await api.ended(run)
    assert ended["output"]["messages"][-1]["content"] == "sent hello to ann | stamped hello"
    assert effects.words.count("sent to ann") == 1
