"""What a server says that speaks OpenAI's Chat Completions, as a whole or as a stream.

async with model_server(calls(call("send", '{"to": "a"}')), says("done")) as server:
    ...ChatOpenAI(base_url=server.base_url)...
assert server.requests[0].messages[-1]["role"] == "user"
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.model_server import Answer, Body, answers, events


def says(text: str | None, *, calls: list[Body] | None = None, **about: Any) -> Answer:
    """An answer in words. `about`: finish, usage, refusal, model, wait, and any field of the message."""
    finish = about.pop("finish", "tool_calls" if calls else "stop")
    usage = about.pop("usage", {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})
    model, wait = about.pop("model", "gpt-test-2026"), about.pop("wait", 0)
    message = {"role": "assistant", "content": text, "refusal": None, **about}
    if calls is not None:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model}
    whole = answers({**head, "choices": [choice], "usage": usage}, wait=wait)

    def stream(asked: Body) -> bytes:
        # As the protocol has it: no usage unless the client asks for it.
        told = usage if (asked.get("stream_options") or {}).get("include_usage") else None
        return chunks(*_pieces(message), finish=finish, usage=told, model=model)

    return replace(whole, stream=stream)


def streams(*deltas: Body, **about: Any) -> Answer:
    """A stream of these deltas. `about`: finish (None: the stream ends without one), usage, model."""
    return Answer(stream=lambda _: chunks(*deltas, **about))


def chunks(
    *deltas: Body, finish: str | None = "stop", usage: Any = None, model: str = "gpt-test-2026"
) -> bytes:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    last: list[Body] = [{"index": 0, "delta": {}, "finish_reason": finish}] if finish else []
    choices: list[Body] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ] + last
    told: list[Body] = [{**head, "choices": [], "usage": usage}] if usage else []
    return events(*({**head, "choices": [each]} for each in choices), *told, "[DONE]")


def _pieces(message: Body) -> Iterator[Body]:
    yield {"role": "assistant", "content": "" if message["content"] is not None else None}
    for name in ("content", "refusal"):
        for piece in re.findall(r"\s*\S+|\s+", message[name] or ""):
            yield {name: piece}
    for at, call in enumerate(message.get("tool_calls") or []):
        yield from _pieces_of_call(at, call)


def _pieces_of_call(at: int, call: Body) -> Iterator[Body]:
    """The head of a call with the first half of its arguments, then the rest."""
    function: Any = call.get("function")
    arguments: Any = function.get("arguments") if function else None
    first: Any = arguments
    rest = ""
    if isinstance(arguments, str):
        first, rest = arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]
    head = {"index": at, **call}
    if function is not None:
        head["function"] = {**function, "arguments": first}
    yield {"tool_calls": [head]}
    if rest:
        yield {"tool_calls": [{"index": at, "function": {"arguments": rest}}]}


def calls(*proposed: Body, **about: Any) -> Answer:
    """An answer that proposes calls, each made by `call`."""
    return says(about.pop("text", None), calls=list(proposed), **about)


def call(tool: str, arguments: Any = "{}", *, id: str | None = "call_1") -> Body:
    """One proposed call. The protocol has arguments as a string of JSON; servers send other things too."""
    proposed: Body = {"type": "function", "function": {"name": tool, "arguments": arguments}}
    return proposed if id is None else {"id": id, **proposed}


def responds(*output: Body, status: str = "completed", **about: Any) -> Answer:
    """An answer of OpenAI's other protocol, Responses."""
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-r"}
    settings: Body = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    whole: Body = {**head, **settings, "status": status, "output": list(output), **about}

    def stream(_: Body) -> bytes:
        return _responses(whole)

    return replace(answers(whole), stream=stream)


def _responses(whole: Body) -> bytes:
    begun: Body = {**whole, "output": [], "status": "in_progress"}
    told: list[Body] = [{"type": "response.created", "response": begun}]
    for at, item in enumerate(whole["output"]):
        place = {"output_index": at, "item_id": item["id"]}
        added = {**item, "arguments": ""} if "arguments" in item else item
        told.append({"type": "response.output_item.added", **place, "item": added})
        if "arguments" in item:
            name = "response.function_call_arguments.delta"
            told.append({"type": name, **place, "delta": item["arguments"]})
        for part, content in enumerate(item.get("content", [])):
            told += _responses_text({**place, "content_index": part}, content)
        told.append({"type": "response.output_item.done", **place, "item": item})
    ended = "completed" if whole["status"] == "completed" else "incomplete"
    told.append({"type": f"response.{ended}", "response": whole})
    return events(*({**each, "sequence_number": at} for at, each in enumerate(told)), named=True)


def _responses_text(place: Body, content: Body) -> Iterator[Body]:
    for piece in re.findall(r"\s*\S+", content.get("text", "")):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    for piece in re.findall(r"\s*\S+", content.get("refusal", "")):
        yield {"type": "response.refusal.delta", **place, "delta": piece}
    if "refusal" in content:
        yield {"type": "response.refusal.done", **place, "refusal": content["refusal"]}
