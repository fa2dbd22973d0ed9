"""The client for programs that are async."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx
from httpx_sse import EventSource

from signoff_client import operations
from signoff_client.following import AnyEvent, Following
from signoff_client.operations import Caller, Pages
from signoff_client.plans import Plan, Request, Step, Wait
from signoff_client.sending import HERE, RETRIES, TIMEOUT, Address

P = ParamSpec("P")
T = TypeVar("T")


def _does(
    operation: Callable[Concatenate[Caller, P], Plan[T]],
) -> "Callable[Concatenate[AsyncSignoffClient, P], Coroutine[Any, Any, T]]":
    @wraps(operation)
    async def method(client: "AsyncSignoffClient", *args: P.args, **options: P.kwargs) -> T:
        return await client.carry_out(operation(client.caller, *args, **options))

    return method


def _lists(
    operation: Callable[Concatenate[Caller, P], Pages[T]],
) -> "Callable[Concatenate[AsyncSignoffClient, P], AsyncIterator[T]]":
    @wraps(operation)
    def method(
        client: "AsyncSignoffClient", *args: P.args, **options: P.kwargs
    ) -> AsyncIterator[T]:
        return client.turn(operation(client.caller, *args, **options))

    return method


def _follows(
    operation: Callable[Concatenate[Caller, P], Following],
) -> "Callable[Concatenate[AsyncSignoffClient, P], AsyncGenerator[AnyEvent]]":
    @wraps(operation)
    def method(
        client: "AsyncSignoffClient", *args: P.args, **options: P.kwargs
    ) -> AsyncGenerator[AnyEvent]:
        return client.follow(operation(client.caller, *args, **options))

    return method


class AsyncSignoffClient:
    """A client of the service at one address. `aclose` it, or use it in an `async with`.

    Args:
        url: Where the service is.
        key: An API key, or a JWT, where the service asks for one.
        by: In whose name decisions are sent, where a decision does not say it. With a key it is its owner's.
        retries: How often a request is made again that found nobody, or a service that was busy or away.
        timeout: Seconds in which the service has to answer, beside what it was told to wait for a run.
        http: Sends the requests, with proxies, certificates and what else it was made with; stays open.
    """

    def __init__(
        self,
        url: str = HERE,
        *,
        key: str | None = None,
        by: str | None = None,
        retries: int = RETRIES,
        timeout: float = TIMEOUT,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self.caller = Caller(by=by, retries=retries)
        self._address = Address(url=url, key=key, timeout=timeout)
        self._http = http or httpx.AsyncClient()
        self._is_own = http is None

    async def aclose(self) -> None:
        """Closes its connections."""
        if self._is_own:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    start_run = _does(operations.start_run)
    get_run = _does(operations.get_run)
    wait_for_run = _does(operations.wait_for_run)
    cancel_run = _does(operations.cancel_run)
    list_runs = _lists(operations.list_runs)
    run_events = _follows(operations.run_events)
    events = _follows(operations.events)

    list_pauses = _lists(operations.list_pauses)
    get_pause = _does(operations.get_pause)
    extend_pause = _does(operations.extend_pause)

    decide = _does(operations.decide)
    approve = _does(operations.approve)
    reject = _does(operations.reject)
    edit = _does(operations.edit)
    answer = _does(operations.answer)
    fill = _does(operations.fill)
    report = _does(operations.report)
    choose = _does(operations.choose)
    act = _does(operations.act)
    use_value = _does(operations.use_value)

    create_thread = _does(operations.create_thread)
    get_thread = _does(operations.get_thread)
    list_threads = _lists(operations.list_threads)
    delete_thread = _does(operations.delete_thread)

    list_workflows = _lists(operations.list_workflows)
    get_workflow = _does(operations.get_workflow)
    list_deliveries = _lists(operations.list_deliveries)
    get_delivery = _does(operations.get_delivery)
    retry_delivery = _does(operations.retry_delivery)
    list_audit = _lists(operations.list_audit)
    get_session = _does(operations.get_session)

    async def carry_out(self, plan: Plan[T]) -> T:
        """Does what a plan says."""
        move: Callable[[], Step] = partial(plan.send, None)
        while True:
            try:
                step = move()
            except StopIteration as end:
                return end.value
            move = await self._after(plan, step)

    async def _after(self, plan: Plan[Any], step: Step) -> Callable[[], Step]:
        """Does a step; the result tells the plan what came of it."""
        try:
            match step:
                case Wait(seconds):
                    return partial(plan.send, await asyncio.sleep(seconds))
                case Request():
                    return partial(plan.send, await self._http.send(self._request(step)))
        except httpx.TransportError as error:
            return partial(plan.throw, error)

    async def turn(self, pages: Pages[T]) -> AsyncIterator[T]:
        """The items of a list, page after page."""
        cursor, is_more = None, True
        while is_more:
            page = await self.carry_out(pages(cursor))
            for item in page.items:
                yield item
            cursor, is_more = page.next, page.next is not None

    async def follow(self, following: Following) -> AsyncGenerator[AnyEvent]:
        """The events of a stream, over as many connections as it takes."""
        while not following.is_over:
            try:
                async with aclosing(self._heard(following)) as heard:
                    async for event in heard:
                        yield event
            except httpx.TransportError as error:
                following.breaks_off(error)
            if not following.is_over:
                await asyncio.sleep(following.rest)

    async def _heard(self, following: Following) -> AsyncGenerator[AnyEvent]:
        answer = await self._http.send(self._request(following.request), stream=True)
        try:
            if not answer.is_success:
                await answer.aread()
            if following.opens(answer):
                async with aclosing(EventSource(answer).aiter_sse()) as told:
                    async for each in told:
                        if event := following.take(each):
                            yield event
        finally:
            await answer.aclose()

    def _request(self, request: Request) -> httpx.Request:
        return self._http.build_request(**self._address.of(request))
