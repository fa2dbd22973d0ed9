"""Tools of servers that speak the Model Context Protocol, given to agents like their own."""

import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, TypedDict, Unpack
from urllib.parse import urlsplit

from pydantic import BaseModel, TypeAdapter

from app.authoring.asks import Approval, External, Fill
from app.authoring.channel import Channel
from app.authoring.context import ToolContext
from app.authoring.guardrails import CallGuard, ResultGuard
from app.authoring.mcp_schema import (
    UnusableSchema,
    arguments_model,
    mark_sensitive,
    result_type,
    usable,
)
from app.authoring.mistakes import wrong_duration
from app.authoring.shape import Schema, adapter_of, plain
from app.authoring.signature import ToolSignature
from app.authoring.tool import OnCrash, Tool
from app.domain.json import Json
from app.errors import AuthoringError

CALL_TIMEOUT = timedelta(minutes=1)


class McpMistake(AuthoringError):
    """A server that is declared wrongly, cannot be asked, or lacks what is wanted of it."""


class Terms(TypedDict, total=False):
    """What may be said of a server's tools: the same as of a function, by `tool`.

    `timeout` is a minute where it is not given. `sensitive` names arguments that nobody but the
    server may see: the names of properties, or JSON pointers, in which `*` stands for any item.
    """

    channel: Channel | None
    approval: Approval | None
    external: bool | External
    fill: Sequence[str] | Fill
    timeout: timedelta | None
    retries: int
    before_call: Sequence[CallGuard]
    after_call: Sequence[ResultGuard]
    on_crash: OnCrash
    sensitive: Sequence[str]


@dataclass(frozen=True, eq=False)
class McpServer:
    """A server of tools: at a `url` (streamable HTTP), or a `command` that is started (stdio).

    `headers` go to the address. `environment` is what the command gets beside `PATH`, `HOME` and
    the like. The server is asked once, when the first of its tools is taken, and has `timeout` for
    saying what it has.
    """

    name: str
    _: KW_ONLY
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout: timedelta = timedelta(seconds=20)

    def tool(self, name: str, /, *, rename: str = "", **terms: Unpack[Terms]) -> "McpTool":
        """One of its tools, under these terms; `rename` is what models call it instead.

        Raises `AuthoringError` where the server cannot be asked, or has no such tool.
        """
        (tool,) = self._made({name: rename or name}, terms)
        return tool

    def tools(self, *names: str, **terms: Unpack[Terms]) -> "list[McpTool]":
        """Those of its tools, or all it has now, each under these terms; raises as `tool` does."""
        return self._made({name: name for name in names or self._offered}, terms)

    def _made(self, names: Mapping[str, str], terms: Terms) -> "list[McpTool]":
        unknown = [name for name in names if name not in self._offered]
        if unknown:
            has = ", ".join(self._offered) or "none"
            raise self._mistake(f"has no tool {', '.join(map(repr, unknown))}; it has: {has}")
        default: Terms = {} if terms.get("external") else {"timeout": CALL_TIMEOUT}
        sensitive = terms.get("sensitive", ())
        said: Any = {key: each for key, each in (default | terms).items() if key != "sensitive"}
        return [
            McpTool(
                self._offered[name].call,
                offer=self._marked(self._offered[name], sensitive),
                called=called,
                **said,
            )
            for name, called in names.items()
        ]

    def _marked(self, offer: "Offer", sensitive: Sequence[str]) -> "Offer":
        if isinstance(sensitive, str):
            raise self._mistake("sensitive= must be a list of arguments")
        try:
            return offer.with_marks(sensitive)
        except UnusableSchema as error:
            raise self._mistake(str(error)) from error

    @cached_property
    def _offered(self) -> "dict[str, Offer]":
        for wrong in self._mistakes():
            raise self._mistake(wrong)
        session = self._session
        seconds = self.timeout.total_seconds()
        try:
            with ThreadPoolExecutor(1) as thread:  # a loop may be running in this one
                found = thread.submit(session.listed, self._address, seconds).result()
        except session.McpFailed as error:
            raise self._mistake(f"cannot be asked for its tools: {error}. {_TO_DO}") from error
        return {
            each.name: Offer(
                server=self,
                name=each.name,
                description=each.description or "",
                arguments=each.input_schema,
                result=each.output_schema,
            )
            for each in found
        }

    def _mistakes(self) -> Iterator[str]:
        if bool(self.url) == bool(self.command):
            yield "needs url= or command=, and not both"
        elif self.url and urlsplit(self.url).scheme not in {"http", "https"}:
            yield "needs an url= that begins with https:// or http://"
        if isinstance(self.command, str):
            yield "takes a command= as a list: the program and its arguments"
        if self.headers and not self.url:
            yield "could never send headers= without url="
        if self.environment and not self.command:
            yield "could never use environment= without command="
        yield from wrong_duration("timeout", self.timeout, optional=False)

    def _mistake(self, wrong: str) -> McpMistake:
        return McpMistake(f"The MCP server {self.name!r} {wrong}", server=self.name)

    async def call(self, offer: "Offer", arguments: Json, call_id: str) -> Json:
        """What comes of a call of one of its tools; raises what the model reads where it failed."""
        session = self._session
        answer = await session.called(self._address, offer.name, arguments, call_id)
        return session.result_of(
            answer, structured=offer.result is not None, wrapped=offer.is_wrapped
        )

    @property
    def _address(self) -> Any:
        return self._session.Address(
            name=self.name,
            url=self.url,
            headers=self.headers,
            command=tuple(self.command),
            environment=self.environment,
        )

    @property
    def _session(self) -> Any:
        """Imported when it is needed: it takes long, and few have a server."""
        try:
            return importlib.import_module("app.authoring.mcp_session")
        except ModuleNotFoundError as error:
            raise self._mistake("needs the extra mcp: pip install 'signoff[mcp]'") from error


_TO_DO = (
    "Tools are read when a workflow is built: let the server be there when the service starts, "
    "and see to its address, headers or command."
)


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A tool as its server describes it. `result` is None where that does not say what it returns."""

    server: McpServer
    name: str
    description: str
    arguments: Schema
    result: Schema | None

    def with_marks(self, sensitive: Sequence[str]) -> "Offer":
        """The offer with schemas that can be read here, and marks; raises `UnusableSchema`."""
        try:
            arguments = usable({"type": "object", **self.arguments})
            result = None if self.result is None else usable(self.result)
        except UnusableSchema as error:
            message = f"has a tool {self.name!r} whose schema cannot be used: {error}"
            raise UnusableSchema(message) from error
        for place in sensitive:
            if not mark_sensitive(arguments, place):
                message = f"has a tool {self.name!r}, which takes nothing at sensitive={place!r}"
                raise UnusableSchema(message)
        return Offer(
            server=self.server,
            name=self.name,
            description=self.description,
            arguments=arguments,
            result=result,
        )

    @property
    def is_wrapped(self) -> bool:
        """Whether its structured result is an object only because it has to be one."""
        return self.result is not None and list(self.result.get("properties", {})) == ["result"]

    @property
    def result_schema(self) -> Schema:
        """JSON Schema of what it gives: its structured result, else a text."""
        if self.result is None:
            return {"type": "string"}
        if not self.is_wrapped:
            return self.result
        definitions = {"$defs": self.result["$defs"]} if "$defs" in self.result else {}
        return self.result["properties"]["result"] | definitions

    async def call(self, context: ToolContext, arguments: Json) -> Json:
        """What the server gives for a call."""
        return await self.server.call(self, arguments, context.call_id)


@dataclass(frozen=True, eq=False)
class McpTool(Tool[..., Any]):
    """A tool of a server. Its arguments are what fits the server's schema; models call it `called`."""

    _: KW_ONLY
    offer: Offer
    called: str

    @property
    def name(self) -> str:
        return self.called

    @cached_property
    def description(self) -> str:
        return self.offer.description

    @cached_property
    def signature(self) -> ToolSignature:
        return ToolSignature(
            own=_ARGUMENTS,
            takes_context=True,
            parameters=arguments_model(self.called, self.offer.arguments),
            single="arguments",
            result=self._result,
        )

    @cached_property
    def _result(self) -> TypeAdapter[Any]:
        return adapter_of(str) if self.offer.result is None else result_type(self.result_schema)

    @cached_property
    def arguments_schema(self) -> Schema:
        return self.offer.arguments

    @cached_property
    def result_schema(self) -> Schema:
        return self.offer.result_schema

    @cached_property
    def fill_schema(self) -> Schema:
        if self.form is None:
            return {}
        whole = self.arguments_schema
        offered: Schema = self.form.without(whole)["properties"]
        filled: Schema = {
            name: each for name, each in whole["properties"].items() if name not in offered
        }
        return {
            **{key: whole[key] for key in ("type", "$defs") if key in whole},
            "properties": filled,
            "required": [name for name in whole.get("required", ()) if name in filled],
            "additionalProperties": False,
        }

    async def call(self, context: ToolContext, arguments: BaseModel) -> Any:
        given = self.dump_arguments(arguments)
        return self.result.validate_python(await self.offer.call(context, given))

    def proposed(self, *args: Any, **kwargs: Any) -> Json:
        """The arguments by their names, or all in one object."""
        return plain(args[0] if args else kwargs)


_ARGUMENTS = inspect.Signature(
    [inspect.Parameter("arguments", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
)
