"""How a workflow of steps is tested: each question at its step, answered one after the other."""

from app.testing import Run, Signoff, assert_finished, assert_paused
from examples.publishing import Article, Brief, Tone, publishing


async def drafted(signoff: Signoff, topic: str = "tea") -> Run:
    """A run whose first draft waits for its review."""
    run = await signoff.execute(publishing, Brief(topic=topic))
    assert_paused(run, at="research", kind="confirmation")
    run = await signoff.resume(run, approved=True)
    assert_paused(run, at="draft", kind="input")
    run = await signoff.resume(run, value=Tone(tone="plain"))
    assert_paused(run, at="draft", kind="review")
    return run


async def test_an_article_goes_out_where_the_editor_says(signoff: Signoff) -> None:
    run = await signoff.resume(await drafted(signoff), approved=True)
    assert_paused(run, at="outlet", kind="route")
    run = await signoff.resume(run, value=["newsletter", "blog"])
    assert_paused(run, at="press")
    run = await signoff.resume(run, approved=True)
    assert_finished(
        run,
        {"sales": "sales knows about A plain piece", "press": "press knows about A plain piece"},
    )


async def test_a_rejected_draft_is_written_again_with_what_was_said_about_it(
    signoff: Signoff,
) -> None:
    run = await signoff.resume(await drafted(signoff), approved=False, feedback="more about milk")
    assert_paused(run, at="draft", kind="review")
    assert run.pause is not None
    assert run.pause["output"]["text"] == "facts about tea (more about milk)"


async def test_an_editor_may_write_it_themselves(signoff: Signoff) -> None:
    mine = Article(title="Tea", text="Mine.")
    run = await signoff.resume(await drafted(signoff), approved=True, override_output=mine)
    run = await signoff.resume(run, value=["blog"])
    run = await signoff.resume(run, approved=False)
    assert_finished(run, {"sales": "sales knows about Tea"})


async def test_a_company_is_named_only_if_a_lawyer_agrees_in_time(signoff: Signoff) -> None:
    run = await signoff.resume(await drafted(signoff, topic="Tea Inc"), approved=True)
    assert_paused(run, at="check names", kind="review")
    run = await signoff.expire(run)
    assert run.status == "cancelled"
    assert run.pauses[-1]["decision"]["by"] == "system:deadline"


async def test_nothing_is_written_about_a_topic_that_nobody_wants(signoff: Signoff) -> None:
    run = await signoff.execute(publishing, Brief(topic="tea"))
    run = await signoff.resume(run, approved=False)
    assert run.status == "cancelled"
