"""Generated stateless messages over HTTP get equal replies and statuses from the engine's app and the SDK's app."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from tests.differential.test_listed_differences import META, ask, begin
from tests.kits.fuzzing import TIMES
from tests.kits.oracle.generated_messages import MessageGenerator
from tests.kits.oracle.http_twins import connect_http_twins
from tests.kits.oracle.listed_differences import HTTP_DIFFERENCES, describe, find_difference
from tests.kits.oracle.twin_servers import Outcome

SEED, GENERATORS, LENGTH = 2026, 100, 20
ENDLESS = (b"subscriptions/listen", b'"wait"')
CHANGES: list[tuple[str, str | None]] = [
    *(("Mcp-Method", value) for value in (None, "tools/list", "TOOLS/CALL")),
    *(("Mcp-Name", value) for value in (None, "echo", "none", "=?base64?!?=", "=?base64?ZWNobw==?=")),
    *(("MCP-Protocol-Version", value) for value in (None, "2025-11-25", "2030-01-01", "x")),
    *(("Accept", value) for value in ("application/json", "text/event-stream", "text/html", "*/*")),
    *(("Content-Type", value) for value in (None, "text/plain", "application/json; charset=utf-8")),
    ("Host", "evil.example"),
    ("Origin", "http://evil.example"),
    ("Origin", "http://localhost:1"),
    ("Mcp-Session-Id", "x"),
]
"""Changes to the headers that a client sends; None leaves a header out."""
NOT_JSON_RPC = {**ask("ping", _meta=META), "jsonrpc": "1.0"}
EXAMPLES: dict[str, tuple[dict[str, Any], dict[str, str | None]]] = {
    "error without an id": (NOT_JSON_RPC, {}),
    "rejection as text": (ask("tools/list", _meta=META), {"Origin": "http://evil.example"}),
    "unsupported version": (ask("tools/list"), {"MCP-Protocol-Version": "2030-01-01"}),
    "missing version header": (ask("tools/list", _meta=META), {"MCP-Protocol-Version": None}),
    "list changes over HTTP": (begin()[0], {"MCP-Protocol-Version": None}),
}


@pytest.fixture
def anyio_backend() -> str:
    """HTTP runs on asyncio."""
    return "asyncio"


async def converse(random: Random) -> list[Outcome]:
    """Return the outcomes of generated requests with an end, a third of them with a changed header."""
    generator, outcomes = MessageGenerator(random, is_stateless=True), []
    async with connect_http_twins() as twins:
        while len(outcomes) < LENGTH:
            line = generator.generate()
            changes = [random.choice(CHANGES)] if random.random() < 0.3 else []
            if not any(text in line for text in ENDLESS):
                outcomes.append(await twins.post(line, dict(changes)))
    return outcomes


@pytest.mark.parametrize("fifth", range(5))
async def test_generated_requests_get_equal_replies_and_statuses(fifth: int) -> None:
    numbers = range(fifth, GENERATORS * TIMES, 5)
    outcomes = [outcome for number in numbers for outcome in await converse(Random(f"{SEED} {number}"))]
    different = [each for each in outcomes if not each.is_equal and find_difference(each, is_http=True) is None]
    assert not different, describe(min(different, key=lambda outcome: len(outcome.line)))
    equal = [outcome for outcome in outcomes if outcome.is_equal]
    assert len(equal) >= len(outcomes) / 2
    assert {outcome.statuses[0] for outcome in equal} >= {200, 202, 400, 404}


@pytest.mark.parametrize("difference", HTTP_DIFFERENCES, ids=lambda difference: difference.name)
async def test_a_listed_difference_occurs(difference: Any) -> None:
    message, changes = EXAMPLES[difference.name]
    async with connect_http_twins() as twins:
        outcome = await twins.post(json.dumps(message).encode(), changes)
    assert not outcome.is_equal
    assert find_difference(outcome, is_http=True) is difference
