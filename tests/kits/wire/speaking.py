"""Connects the official client to the bridge with exactly one protocol version, and checks results with the SDK."""

from __future__ import annotations

import contextlib
import json
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
import mcp.client.session as client_session
import pytest
from mcp.client import Client
from mcp_types.methods import serialize_server_result

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._sources.python import PythonSource
from mcp_bridge.sources import Offer
from mcp_bridge.testing import connect
from tests.kits.constants import STATELESS

NEWEST_HANDSHAKE = "2025-11-25"
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", NEWEST_HANDSHAKE, STATELESS)
EVERY_VERSION = pytest.mark.parametrize("version", VERSIONS)
ERAS = pytest.mark.parametrize("mode", ["legacy", STATELESS])
NOTHING: dict[str, Any] = {"type": "object"}


@contextlib.asynccontextmanager
async def connect_with_version(tools: ToolRegistry | Bridge, version: str) -> AsyncIterator[Client]:
    """Yield a client of this version."""
    with mock.patch.object(client_session, "LATEST_HANDSHAKE_VERSION", version):
        async with connect(tools, mode=STATELESS if version == STATELESS else "legacy") as client:
            assert client.protocol_version == version
            yield client


def build_registry(*entries: ToolEntry) -> ToolRegistry:
    registry = ToolRegistry()
    for entry in entries:
        registry.register(entry)
    return registry


def make_constant_tool(answer: Any, **fields: Any) -> ToolEntry:
    """Return a tool named `t` with a constant result or exception."""
    return make_entry(lambda data: raise_error(answer) if isinstance(answer, BaseException) else answer, **fields)


def make_entry(handler: Callable[..., Any], name: str = "t", **fields: Any) -> ToolEntry:
    return ToolEntry(name, "", handler, **fields)


def raise_error(error: BaseException) -> Any:
    raise error


async def call(client: Client, name: str = "t", /, **arguments: Any) -> dict[str, Any]:
    """Call a tool and return its result as strict JSON."""
    return dump_json(await client.call_tool(name, arguments))


async def list_tools(client: Client) -> list[dict[str, Any]]:
    """Return all tools as strict JSON."""
    return [dump_json(tool) for tool in (await client.list_tools()).tools]


def serialize_for_client(method: str, version: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return a result as the SDK passes it to a client of this version, validated and without null values."""
    hints = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if version == STATELESS else {}
    full_result = {**(hints if method.endswith("/list") else {}), **result}
    json.dumps(full_result, allow_nan=False, ensure_ascii=False).encode()
    return serialize_server_result(method, version, full_result)


def dump_json(model: Any) -> Any:
    data = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    json.dumps(data, allow_nan=False, ensure_ascii=False).encode()
    return data


def get_text(result: dict[str, Any]) -> str:
    """Return the text of a result's text blocks."""
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


async def get_offer_after_edit(path: Path, text: str, *, timeout: float = 20) -> Offer:
    """Return the offer of a watching Python source after its file is changed to this text."""
    offers: list[Offer] = []
    has_offer = anyio.Event()

    def publish(offer: Offer) -> None:
        offers.append(offer)
        if len(offers) == 1:
            path.write_text(textwrap.dedent(text))
        else:
            has_offer.set()

    with anyio.fail_after(timeout):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(PythonSource("s", path=path, watch=True).run, publish)
            await has_offer.wait()
            tasks.cancel_scope.cancel()
    return offers[-1]
