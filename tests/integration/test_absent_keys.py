"""A process that was not given an encryption key which others already use."""

import base64
import os

from app.lifecycle.audit import verify
from app.storage.encryption import seal_anew
from app.storage.sealing import Vault, parse_keys
from examples.errands import errands
from tests.logged import logged
from tests.serving import decide, paused, serving, site_over

OLD, NEW = parse_keys([base64.b64encode(os.urandom(32)).decode() for _ in range(2)])
YES = {"approved": True, "by": "ann"}


async def test_what_needs_a_key_that_is_not_here_is_503_and_the_log_names_it(
    database_url: str,
) -> None:
    async with (
        site_over(database_url, [errands], vault=Vault([OLD])) as behind,
        site_over(database_url, [errands], vault=Vault([NEW, OLD]), works=False) as changed,
        serving(behind) as stale,
        serving(changed) as fresh,
    ):
        run = await paused(stale)
        assert (await decide(stale, run, {"approved": "?"})).status_code == 422
        assert (await stale.get("/readyz")).is_success
        await changed.database.fetch("insert into encryption_keys (id) values ($1)", NEW.id)
        assert await seal_anew(changed.database, lambda _: None)
        with logged() as lines:
            refused = await decide(stale, run, YES)
        assert (refused.status_code, refused.json()["code"]) == (503, "encryption_key_absent")
        assert refused.headers["retry-after"] == "1"
        (said,) = [each for each in lines.told if each["event"] == "encryption key absent"]
        assert (said["level"], said["key"], said["column"]) == ("error", NEW.id, "pauses.secret")
        unready = await stale.get("/readyz")
        assert (unready.status_code, unready.json()["code"]) == (503, "not_ready")
        assert NEW.id in unready.json()["detail"]
        audited = await verify(behind.database)
        assert (audited.faults, audited.rows) == ([], 1)
        taken = await decide(fresh, run, YES, headers={"Prefer": "respond-async"})
        assert taken.status_code == 202
