"""The client that waits for its answers."""

import time
from collections.abc import Callable, Generator, Iterator
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
) -> "Callable[Concatenate[SignoffClient, P], T]":
    @wraps(operation)
    def method(client: "SignoffClient", *args: P.args, **options: P.kwargs) -> T:
        return client.carry_out(operation(client.caller, *args, **options))

    return method


def _lists(
    operation: Callable[Concatenate[Caller, P], Pages[T]],
) -> "Callable[Concatenate[SignoffClient, P], Iterator[T]]":
    @wraps(operation)
    def method(client: "SignoffClient", *args: P.args, **options: P.kwargs) -> Iterator[T]:
        return client.turn(operation(client.caller, *args, **options))

    return method


def _follows(
    operation: Callable[Concatenate[Caller, P], Following],
) -> "Callable[Concatenate[SignoffClient, P], Generator[AnyEvent]]":
    @wraps(operation)
    def method(client: "SignoffClient", *args: P.args, **options: P.kwargs) -> Generator[AnyEvent]:
        return client.follow(operation(client.caller, *args, **options))

    return method


class SignoffClient:
    """A client of the service at one address. May be shared by threads; `close` it, or use it in a `with`.

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
        http: httpx.Client | None = None,
    ) -> None:
        self.caller = Caller(by=by, retries=retries)
        self._address = Address(url=url, key=key, timeout=timeout)
        self._http = http or httpx.Client()
        self._is_own = http is None

    def close(self) -> None:
        """Closes its connections."""
        if self._is_own:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

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

    def carry_out(self, plan: Plan[T]) -> T:
        """Does what a plan says."""
        move: Callable[[], Step] = partial(plan.send, None)
        while True:
            try:
                step = move()
            except StopIteration as end:
                return end.value
            move = self._after(plan, step)

    def _after(self, plan: Plan[Any], step: Step) -> Callable[[], Step]:
        """Does a step; the result tells the plan what came of it."""
        try:
            match step:
                case Wait(seconds):
                    return partial(plan.send, time.sleep(seconds))
                case Request():
                    return partial(plan.send, self._http.send(self._request(step)))
        except httpx.TransportError as error:
            return partial(plan.throw, error)

    def turn(self, pages: Pages[T]) -> Iterator[T]:
        """The items of a list, page after page."""
        page = self.carry_out(pages(None))
        yield from page.items
        while page.next:
            page = self.carry_out(pages(page.next))
            yield from page.items

    def follow(self, following: Following) -> Generator[AnyEvent]:
        """The events of a stream, over as many connections as it takes."""
        while not following.is_over:
            try:
                yield from self._heard(following)
            except httpx.TransportError as error:
                following.breaks_off(error)
            if not following.is_over:
                time.sleep(following.rest)

    def _heard(self, following: Following) -> Generator[AnyEvent]:
        answer = self._http.send(self._request(following.request), stream=True)
        try:
            if not answer.is_success:
                answer.read()
            if following.opens(answer):
                for told in EventSource(answer).iter_sse():
                    if event := following.take(told):
                        yield event
        finally:
            answer.close()

    def _request(self, request: Request) -> httpx.Request:
        return self._http.build_request(**self._address.of(request))
