"""For writers: a pytest fixture that runs workflows over real storage, and what can be claimed of a run.

The fixture `signoff` is there wherever Signoff is installed with its extra `testing`:

    async def test_an_email_waits_for_its_approval(signoff: Signoff) -> None:
        run = await signoff.execute(errands, Errand(text="write to the boss"))
        assert_paused(run, at="assistant")
"""

from app.testing.assertions import assert_called, assert_failed, assert_finished, assert_paused
from app.testing.run import Run
from app.testing.script import Script, ScriptNeverUsed
from app.testing.signoff import NotSettled, Signoff

__all__ = [
    "NotSettled",
    "Run",
    "Script",
    "ScriptNeverUsed",
    "Signoff",
    "assert_called",
    "assert_failed",
    "assert_finished",
    "assert_paused",
]
