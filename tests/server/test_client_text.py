"""A client cannot find out a secret by sending guesses: errors repeat them unchanged, whether they are right or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from mcp_bridge import CallContext, ToolEntry, ToolError, ToolRegistry
from mcp_bridge._contracts.policy import CallNext, Stage
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._engine.pipeline import Pipeline
from mcp_bridge._protocol.peer.connection import Message
from mcp_bridge._protocol.wire.meta_keys import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcp_bridge._protocol.wire.protocol_versions import HANDSHAKE, STATELESS
from mcp_bridge._runtime.tasks import own_tasks
from mcp_bridge._server.endpoint import Endpoint
from mcp_bridge.sources import PromptArgument, PromptEntry, ResourceTemplate
from tests.kits.loops import BOTH_LOOPS
from tests.kits.peer import let_run

SECRET, OTHER = "48151623", "48151624"
HIDDEN = "hunter2-and-more"
"""A secret that no client guesses."""
CHECKED = {
    "type": "object",
    "properties": {"n": {"enum": ["a"]}, "m": {"type": "integer", "maximum": 5}, "p": {"pattern": "^x$"}},
    "additionalProperties": False,
}
GUESSES: dict[str, tuple[str, Mapping[str, Any]]] = {
    "tool": ("tools/call", {"name": "GUESS"}),
    "method": ("tools/GUESS", {}),
    "prompt": ("prompts/get", {"name": "GUESS"}),
    "prompt argument": ("prompts/get", {"name": "p", "arguments": {"GUESS": "x"}}),
    "resource": ("resources/read", {"uri": "none://GUESS"}),
    "resource of a template": ("resources/read", {"uri": "files://GUESS"}),
    "resource that fails": ("resources/read", {"uri": "broken://GUESS"}),
    "cursor": ("tools/list", {"cursor": "GUESS"}),
    "completed prompt": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "GUESS"}, "argument": {"name": "x", "value": ""}},
    ),
    "completed template": (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "GUESS"}, "argument": {"name": "x", "value": ""}},
    ),
    "completed argument": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "GUESS", "value": ""}},
    ),
    "progress token": ("tools/call", {"name": "progresses", "_meta": {"progressToken": "GUESS"}}),
    "argument": ("tools/call", {"name": "checked", "arguments": {"GUESS": 1}}),
    "value": ("tools/call", {"name": "checked", "arguments": {"n": "GUESS"}}),
    "number": ("tools/call", {"name": "checked", "arguments": {"m": int(SECRET)}}),
    "pattern": ("tools/call", {"name": "checked", "arguments": {"p": "GUESS"}}),
    "argument beside a wrapped input": ("tools/call", {"name": "wrapped", "arguments": {"GUESS": 1}}),
}


async def report(data: Any, ctx: CallContext) -> str:
    await ctx.report_progress(1)
    return "done"


def fail(data: Any) -> Any:
    raise ToolError(f"no connection with {HIDDEN}")


def make_registry() -> ToolRegistry:
    registry = ToolRegistry()
    registry.publish(
        "s",
        [
            ToolEntry("checked", "", lambda data: "done", CHECKED),
            ToolEntry("progresses", "", report),
            ToolEntry("wrapped", "", lambda data: "done", {"type": "string"}),
        ],
        templates=[ResourceTemplate("files://{name}", lambda data: "text"), ResourceTemplate("broken://{name}", fail)],
        prompts=[PromptEntry("p", lambda data: "text", arguments=(PromptArgument("x"),))],
    )
    return registry


class RecordingStream:
    """A message stream with a record of the sent JSON."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, message: Message) -> None:
        self.sent.append(orjson.dumps(message))

    def finish(self, response: Message | None) -> None:
        if response is not None:
            self.send(response)

    async def drain(self) -> None: ...

    async def close(self) -> None: ...


async def ask(
    method: str,
    params: Mapping[str, Any],
    version: str,
    *,
    request: int | str = 1,
    registry: ToolRegistry | None = None,
) -> str:
    """Return everything that a server with secrets sends for one request."""
    endpoint = Endpoint(registry or make_registry(), secrets=[SECRET, HIDDEN])
    stream = RecordingStream()
    async with own_tasks() as tasks:
        client = endpoint.connect(stream, tasks)
        if version == STATELESS:
            envelope = {PROTOCOL_VERSION: STATELESS, CLIENT_CAPABILITIES: {}}
            params = {**params, "_meta": {**params.get("_meta", {}), **envelope}}
        else:
            info = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            client.receive({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": info})
            await let_run()
            stream.sent.clear()
        client.receive({"jsonrpc": "2.0", "id": request, "method": method, "params": params})
        while not any(b'"id"' in messages for messages in stream.sent) and method != "subscriptions/listen":
            await let_run()
        await let_run()
        client.close()
    return b"\n".join(stream.sent).decode()


def substitute(params: Any, guess: str) -> Any:
    return orjson.loads(orjson.dumps(params).replace(b"GUESS", guess.encode()).replace(SECRET.encode(), guess.encode()))


BOTH_ERAS = pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])


@BOTH_LOOPS
@BOTH_ERAS
@pytest.mark.parametrize("guess", GUESSES)
async def test_a_response_does_not_confirm_a_guess_of_the_secret(guess: str, version: str) -> None:
    method, params = GUESSES[guess]
    right, wrong = [await ask(method.replace("GUESS", x), substitute(params, x), version) for x in (SECRET, OTHER)]
    assert right.replace(SECRET, OTHER) == wrong
    assert SECRET in right
    assert HIDDEN not in right


async def test_a_stream_of_changes_repeats_its_request_as_it_was() -> None:
    params = {"notifications": {"resourceSubscriptions": [f"files://{SECRET}"]}}
    messages = await ask("subscriptions/listen", params, STATELESS, request=int(SECRET))
    assert f'"resourceSubscriptions":["files://{SECRET}"]' in messages
    assert messages.count(SECRET) == 2


@BOTH_ERAS
async def test_an_error_with_a_secret_is_redacted_around_the_text_of_the_client(version: str) -> None:
    messages = await ask("resources/read", {"uri": f"broken://{SECRET}"}, version)
    assert "no connection with [secret]" in messages
    assert f'"uri":"broken://{SECRET}"' in messages


@BOTH_ERAS
async def test_a_secret_in_a_schema_is_redacted_in_the_problems_of_the_arguments(version: str) -> None:
    registry = ToolRegistry()
    registry.register(ToolEntry("t", "", lambda data: "", {"properties": {"n": {"enum": [HIDDEN]}}}))
    messages = await ask("tools/call", {"name": "t", "arguments": {"n": SECRET}}, version, registry=registry)
    assert f'value "{SECRET}" not in enum ["[secret]"]' in messages.replace("\\", "")
    assert HIDDEN not in messages


@BOTH_ERAS
async def test_arguments_that_a_policy_has_filled_in_are_redacted_in_the_problems(version: str) -> None:
    class AddsKey:
        stage = Stage.DECIDE

        async def __call__(self, call: ToolCall, ctx: CallContext, call_next: CallNext) -> ToolResult:
            new_call = ToolCall(id=call.id, name=call.name, arguments={"n": HIDDEN})
            return await call_next(new_call, ctx)

    registry = ToolRegistry(pipeline=Pipeline([AddsKey()]))
    registry.register(ToolEntry("t", "", lambda data: "", CHECKED))
    messages = await ask("tools/call", {"name": "t", "arguments": {"n": "a"}}, version, registry=registry)
    assert 'value "[secret]" not in enum' in messages.replace("\\", "")
    assert HIDDEN not in messages


@BOTH_ERAS
async def test_a_tool_that_repeats_its_arguments_does_not_reveal_the_secret(version: str) -> None:
    registry = ToolRegistry()
    registry.register(ToolEntry("t", "", lambda data: data["x"]))
    messages = await ask("tools/call", {"name": "t", "arguments": {"x": SECRET}}, version, registry=registry)
    assert "[secret]" in messages
    assert SECRET not in messages


@BOTH_ERAS
async def test_the_name_of_a_prompt_that_is_part_of_a_secret_does_not_reveal_it(version: str) -> None:
    registry = ToolRegistry()
    registry.publish("s", [ToolEntry("t", "", lambda data: "")], prompts=[PromptEntry("and", fail)])
    messages = await ask("prompts/get", {"name": "and"}, version, registry=registry)
    assert "no connection with [secret]" in messages
    assert HIDDEN not in messages
