"""Each policy, on a Python tool, an Amplifier tool and a tool of an upstream, through the official client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp.types import ElicitResult

from tests.kits.policies.policies_kit import KINDS, call_note, connect_under, count_runs

READS = {"readOnlyHint": True}
ERAS = ("auto", "legacy")
anyio_backend = pytest.fixture(lambda: "asyncio")


@pytest.fixture(params=KINDS)
def source_type(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("policy", [{"deny": {"tools": "n*"}}, {"allow": {"tools": ["*", "!note"]}}])
async def test_a_denied_tool_is_listed_and_does_not_run(tmp_path: Path, source_type: str, policy: Any) -> None:
    async with connect_under(tmp_path, source_type, policy) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["note"]
        ok, text = await call_note(client)
    assert not ok
    assert text.startswith("Tool 'note' was denied: the settings of this server")
    assert count_runs(tmp_path) == 0


async def test_a_read_only_server_runs_tools_that_are_declared_read_only(tmp_path: Path, source_type: str) -> None:
    async with connect_under(tmp_path, source_type, "read_only", hints=READS) as client:
        assert await call_note(client) == (True, "the note: hello")


async def test_a_read_only_server_runs_no_other_tools(tmp_path: Path, source_type: str) -> None:
    async with connect_under(tmp_path, source_type, "read_only") as client:
        ok, text = await call_note(client)
    assert (ok, "readOnlyHint" in text) == (False, True)
    assert count_runs(tmp_path) == 0


async def test_the_error_of_a_rate_limit_contains_the_time_to_retry(tmp_path: Path, source_type: str) -> None:
    async with connect_under(tmp_path, source_type, {"rate_limit": {"limit": "2/hour"}}) as client:
        assert [(await call_note(client))[0] for _ in range(2)] == [True, True]
        ok, text = await call_note(client)
    assert not ok
    assert text.startswith("Tool 'note' did not run: at most 2 calls per hour for each tool and for each principal.")
    assert int(text.split("Retry in ")[1].split()[0]) in range(3500, 3601)
    assert count_runs(tmp_path) == 2


async def test_a_retry_repeats_calls_of_an_idempotent_tool(tmp_path: Path, source_type: str) -> None:
    policy = {"retry": {"errors": "internal_error", "wait": "1ms"}}
    async with connect_under(tmp_path, source_type, policy, hints={"idempotentHint": True}) as client:
        assert await call_note(client, "flaky") == (True, "the note: flaky")
    assert count_runs(tmp_path) == 3


async def test_a_retry_leaves_other_tools_alone(tmp_path: Path, source_type: str) -> None:
    policy = {"retry": {"errors": "internal_error", "wait": "1ms"}}
    async with connect_under(tmp_path, source_type, policy) as client:
        assert not (await call_note(client, "flaky"))[0]
    assert count_runs(tmp_path) == 1


async def test_a_cache_answers_an_equal_call_of_a_read_only_tool(tmp_path: Path, source_type: str) -> None:
    async with connect_under(tmp_path, source_type, "cache", hints=READS) as client:
        assert [await call_note(client) for _ in range(2)] == [(True, "the note: hello")] * 2
        assert count_runs(tmp_path) == 1
        await call_note(client, "another")
    assert count_runs(tmp_path) == 2


async def test_redaction_replaces_secrets_in_results_and_arguments(tmp_path: Path, source_type: str) -> None:
    policy = {"redact": {"patterns": ["secrets", "email"], "apply_to": ["results", "arguments"]}}
    async with connect_under(tmp_path, source_type, policy) as client:
        ok, text = await call_note(client, "AKIAABCDEFGHIJKLMNOP of ada@example.org")
    assert (ok, text) == (True, "the note: [redacted aws_access_key] of [redacted email]")


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(("answer", "runs"), [("Allow once", 1), ("Deny", 0)])
async def test_the_user_decides_in_both_eras(
    tmp_path: Path, source_type: str, mode: str, answer: str, runs: int
) -> None:
    messages: list[str] = []

    async def choose(context: Any, params: Any) -> ElicitResult:
        messages.append(params.message)
        return ElicitResult(action="accept", content={"value": answer})

    options = {"mode": mode, "elicitation_callback": choose}
    policy = {"approval": {"tools": "note"}}
    async with connect_under(tmp_path, source_type, policy, options=options, approvals={"remember": False}) as client:
        ok, text = await call_note(client)
    assert messages == ["Allow the tool 'note' to run?\n- text (length 5): \"hello\""]
    assert (ok, count_runs(tmp_path)) == (bool(runs), runs)
    assert text == "the note: hello" if runs else text.startswith("Tool 'note' was not approved. The user declined it.")
