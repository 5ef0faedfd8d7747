"""For tests of questions: a bridge served over pipes to a raw client, answers to questions, and parts of results."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from mcp_bridge import ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.identity import Identity
from mcp_bridge.middleware import Pipeline
from mcp_bridge.serving import State
from tests.client.raw_client import Json
from tests.client.stdio_client import StdioClient, serve_over_pipes
from tests.kits.constants import STATELESS

ALL_CAPABILITIES: Any = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}, "roots": {}}
INVALID_STATE = {
    "code": -32602,
    "message": "Invalid or expired requestState",
    "data": {"reason": "invalid_request_state"},
}
NAME_SCHEMA: Any = {"type": "object", "properties": {"name": {"type": "string", "minLength": 2}}, "required": ["name"]}


def get_text(result: Any) -> str:
    """Return the text of a result, from the official client or raw."""
    content = result["content"] if isinstance(result, Mapping) else result.content
    first = content[0]
    return str(first["text"] if isinstance(first, Mapping) else first.text)


def get_code(result: Any) -> str | None:
    """Return the stable code of a failed result, from the official client or raw, or None for a success."""
    raw = result if isinstance(result, Mapping) else result.model_dump(by_alias=True)
    return raw["_meta"]["mcp-bridge/code"] if raw.get("isError") else None


def accept(**content: Any) -> Json:
    """Return a raw answer that accepts a form with this content."""
    return {"action": "accept", "content": content}


def make_sampling_result(text: str) -> Json:
    """Return the raw answer of a model."""
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "m-1"}


def make_bridge(registry: ToolRegistry, *, name: str = "tests", **state: Any) -> Bridge:
    """Return a bridge with these settings of `state` for its questions."""
    return Bridge(registry, identity=Identity(name=name), state=State(**state))


def make_registry(*middleware: Any, timeout: float | None = 60.0) -> ToolRegistry:
    """Return an empty registry with this middleware."""
    return ToolRegistry(pipeline=Pipeline(middleware, timeout=timeout))


@contextlib.asynccontextmanager
async def serve_client(
    tools: ToolRegistry | Bridge, *, version: str = STATELESS, capabilities: Json = ALL_CAPABILITIES, **options: Any
) -> AsyncIterator[StdioClient]:
    """Serve tools in this process and yield a raw client with this protocol version."""
    if not isinstance(tools, Bridge):
        tools = make_bridge(tools)
    options |= {"stateless": version == STATELESS, "capabilities": capabilities, "initialize": False}
    async with serve_over_pipes(tools, **options) as client:
        await client.initialize(version)
        yield client


def is_idle(bridge: Bridge) -> bool:
    """Whether no call is suspended, and no place for suspended calls is reserved."""
    calls = bridge.endpoint.calls._rounds._suspended
    return not calls._suspended and not calls._asking


def list_names(questions: Mapping[str, Any]) -> Sequence[str]:
    """Return the sorted names of the questions."""
    return sorted(questions)
