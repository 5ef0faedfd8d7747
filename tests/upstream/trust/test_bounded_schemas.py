"""Schemas of upstreams cannot make the gateway slow or make it read files."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge.testing import connect
from tests.kits.upstream.trust_kit import ScriptedGateway, describe_tool, list_tools

CPU = 2.0
"""Seconds of CPU time that nothing may take. Without bounds, each of these would take far longer, or never end."""


def nest(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def make_doubling_schema(levels: int) -> dict[str, Any]:
    parts = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**parts, f"d{levels}": {}}}


BOMBS: dict[str, Any] = {
    "too deep": nest(40),
    "too many values": {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5_000)}},
    "too large": {"type": "object", "properties": {"a": {"enum": ["x" * 300_000]}}},
    "doubling references": make_doubling_schema(30),
    "many references": make_doubling_schema(13),
    "a definition without a name": {**make_doubling_schema(30), "$defs": {**make_doubling_schema(30)["$defs"], "": {}}},
    "reference to the network": {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}},
    "reference to a file": {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
    "relative reference": {"type": "object", "properties": {"a": {"$ref": "other.json#/a"}}},
    "look-around": {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=a)b"}}},
    "backreference": {"type": "object", "properties": {"a": {"type": "string", "pattern": r"(a+)\1"}}},
    "too many patterns": {"type": "object", "anyOf": [{"pattern": "a"}] * 251},
    "repetitions": {"type": "object", "properties": {"a": {"type": "string", "pattern": "((x{1,999}){1,999}){1,999}"}}},
}


@pytest.mark.parametrize("side", ["inputSchema", "outputSchema"])
@pytest.mark.parametrize("case", BOMBS)
async def test_a_schema_bomb_is_reduced_and_its_tool_published(tmp_path: Path, case: str, side: str) -> None:
    gateway = ScriptedGateway(tmp_path)
    gateway.offer(describe_tool("bomb", **{side: BOMBS[case]}), describe_tool("good"))
    bridge = gateway.build()
    before = time.process_time()
    async with connect(bridge) as client:
        start = time.process_time()
        assert set(await list_tools(client)) == {"files__bomb", "files__good"}
    assert start - before < CPU
    assert not bridge.problems["files"]
    assert all(re.search("tool '(files__)?bomb': ", note) for note in bridge.notes["files"])
    assert bridge.notes["files"]


COSTLY = {
    "catastrophic pattern": {"type": "string", "pattern": "^(a+)+$"},
    "ambiguous pattern": {"type": "string", "pattern": "^(a|a|aa)*$"},
    "alternatives": {"anyOf": [{"anyOf": [{"pattern": f"^(a*)*{n}$"} for n in range(12)]} for _ in range(20)]},
    "names of properties": {"patternProperties": {f"^(a*)*{n}$": False for n in range(249)}},
    "references": {"$ref": "#/$defs/d0"},
    "unique items": {"uniqueItems": True},
}
TEXT = "a" * 30_000 + "b"
VALUES = {"unique items": [[n] for n in range(20_000)], "names of properties": {TEXT: 1}}


@pytest.mark.parametrize("case", COSTLY)
async def test_no_schema_makes_a_call_slow(tmp_path: Path, case: str) -> None:
    """The module `re` of Python would never finish here."""
    schema = {"type": "object", "properties": {"a": COSTLY[case]}, "$defs": make_doubling_schema(11)["$defs"]}
    value = VALUES.get(case, TEXT)
    # The official client would validate property names with `re`.
    output = {} if case == "names of properties" else {"outputSchema": schema}
    gateway = ScriptedGateway(tmp_path)
    gateway.offer(describe_tool("costly", inputSchema=schema, **output), structured={"a": value})
    spent = []
    async with connect(gateway.build()) as client:
        assert "files__costly" in await list_tools(client)
        for _ in range(3):
            before = time.process_time()
            await client.call_tool("files__costly", {"a": value})
            spent.append(time.process_time() - before)
    assert min(spent) < CPU
