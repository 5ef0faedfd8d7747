"""The records of calls in the audit trail, in both eras."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import types
from mcp.client import Client

from mcp_bridge import open_bridge
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall
from mcp_bridge._policies.approvals.decisions import hash_json
from mcp_bridge._transports.http.access import Access
from mcp_bridge._transports.http.bearer import Authenticator, StaticTokens
from mcp_bridge.testing import connect
from tests.kits.audit.audit_kit import build_audited_bridge, read_records, wait_for_record, write_settings
from tests.kits.http.http_hosting import HTTP_WAYS, HttpWay, serve_http
from tests.kits.loops import BOTH_LOOPS
from tests.kits.policies.policies_kit import build_bridge

ERAS = pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28")])


@ERAS
async def test_a_record_contains_the_caller_the_tool_and_the_outcome(tmp_path: Path, mode: str, version: str) -> None:
    bridge = build_audited_bridge(tmp_path)
    client = types.Implementation(name="inspector", version="1.2")
    async with connect(bridge, mode=mode, client_info=client) as connected:
        await connected.call_tool("add", {"a": 1, "b": 2})
        [record] = read_records(tmp_path / "trail.sqlite3")
    assert record["kind"] == "tool"
    assert record["name"] == "add"
    assert record["source"] == bridge.sources[0].name
    assert record["client"] == "inspector 1.2"
    assert (record["protocol"], record["transport"]) == (version, "memory")
    assert record["outcome"] == "ok"
    assert record["duration_ms"] > 0
    assert record["time"].endswith("Z")
    assert "principal" not in record
    assert "parent" not in record


@pytest.mark.parametrize("way", HTTP_WAYS, ids=lambda way: f"{way.transport}-{way.mode}")
async def test_a_record_has_the_principal_of_the_token(tmp_path: Path, way: HttpWay) -> None:
    tokens = StaticTokens(None, {"ada": "a-token-for-ada"})
    access = Access.for_host("127.0.0.1", authenticator=Authenticator(tokens))
    async with (
        serve_http(build_audited_bridge(tmp_path), access=access) as (base, _),
        way.connect(base, token="a-token-for-ada") as client,
    ):
        await client.call_tool("add", {"a": 1, "b": 2})
    [record] = read_records(tmp_path / "trail.sqlite3")
    assert (record["principal"], record["transport"]) == ("ada", way.transport)


async def test_values_of_arguments_are_recorded_only_as_types_sizes_and_a_hash(tmp_path: Path) -> None:
    arguments = {"user": "margaret", "password": "correct horse", "options": {"groups": [1, 2, 3]}}
    async with connect(build_audited_bridge(tmp_path)) as client:
        await client.call_tool("sign_in", arguments)
    [record] = read_records(tmp_path / "trail.sqlite3")
    assert record["shape"] == {"user": "string[8]", "password": "string[13]", "options": {"groups": "array[3]"}}
    assert record["sha256"] == hash_json(arguments)
    assert "arguments" not in record
    assert "margaret" not in str(record)


async def test_full_arguments_are_recorded_without_secrets(tmp_path: Path) -> None:
    async with connect(build_audited_bridge(tmp_path, arguments="full")) as client:
        await client.call_tool("sign_in", {"user": "margaret", "password": "correct horse"})
        await client.call_tool("sign_in", {"user": "x" * 70_000, "password": "correct horse"})
    short, long = read_records(tmp_path / "trail.sqlite3")
    assert short["arguments"] == {"user": "margaret", "password": "[secret]"}
    assert long["shape"]["user"] == "string[70000]"
    assert "arguments" not in long


async def test_matches_of_the_policy_redact_are_redacted_in_the_trail(tmp_path: Path) -> None:
    bridge = build_audited_bridge(
        tmp_path, "redact: {patterns: secrets, custom: {name: 'marg[a-z]+'}}", arguments="full"
    )
    async with connect(bridge) as client:
        await client.call_tool("sign_in", {"user": "margaret", "password": "p"})
    [record] = read_records(tmp_path / "trail.sqlite3")
    assert "margaret" not in str(record)


async def test_secrets_in_the_keys_of_arguments_are_redacted(tmp_path: Path) -> None:
    bridge = build_audited_bridge(tmp_path)
    bridge.hide_secrets(["a-secret-of-the-settings"])
    async with connect(bridge) as client:
        await client.call_tool("sign_in", {"user": "u", "password": "p", "options": {"a-secret-of-the-settings": 1}})
    [record] = read_records(tmp_path / "trail.sqlite3")
    assert record["shape"]["options"] == {"[secret]": "integer"}


async def test_secrets_of_the_settings_in_names_are_redacted(tmp_path: Path) -> None:
    bridge = build_audited_bridge(tmp_path)
    bridge.hide_secrets(["a-secret-of-the-settings"])
    async with connect(bridge) as client:
        await client.read_resource("note://a-secret-of-the-settings")
    [record] = read_records(tmp_path / "trail.sqlite3")
    assert record["name"] == "note://[secret]"


async def test_a_call_answered_by_the_cache_is_marked(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        "from mcp_bridge import tool\n@tool(annotations={'readOnlyHint': True})\ndef look() -> int:\n    return 1\n"
    )
    audit = {"audit": {"path": "trail.sqlite3"}}
    async with connect(build_bridge(tmp_path, {"type": "python", "path": "tools.py"}, audit, "cache")) as client:
        for _ in range(2):
            await client.call_tool("look")
    ran, cached_call = read_records(tmp_path / "trail.sqlite3")
    assert "decisions" not in ran
    assert (cached_call["outcome"], cached_call["decisions"]) == ("ok", [{"policy": "cache", "decision": "answered"}])


async def test_errors_denials_and_invalid_calls_have_a_code(tmp_path: Path) -> None:
    bridge = build_audited_bridge(tmp_path, "deny: {tools: sign_in}", "read_only: {tools: add_twice}")
    async with connect(bridge) as client:
        await client.call_tool("refuse")
        await client.call_tool("add", {"a": "one"})
        await client.call_tool("sign_in", {"user": "u", "password": "p"})
        await client.call_tool("add_twice", {"a": 1})
    failing_call, invalid_call, denied_call, changing_call = read_records(tmp_path / "trail.sqlite3")
    assert (failing_call["outcome"], failing_call["code"]) == ("error", "closed")
    assert (invalid_call["outcome"], invalid_call["code"]) == ("error", "invalid_arguments")
    assert (denied_call["outcome"], denied_call["code"]) == ("denied", "denied")
    [decision] = denied_call["decisions"]
    assert (decision["policy"], decision["decision"]) == ("deny", "denied")
    assert [each["policy"] for each in changing_call["decisions"]] == ["read_only"]


async def test_a_record_names_the_policy_that_limited_the_rate(tmp_path: Path) -> None:
    async with connect(build_audited_bridge(tmp_path, "rate_limit: {limit: 1/day}")) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        await client.call_tool("add", {"a": 1, "b": 2})
    _, limited_call = read_records(tmp_path / "trail.sqlite3")
    assert (limited_call["outcome"], limited_call["code"]) == ("denied", "rate_limited")
    assert limited_call["decisions"][0]["policy"] == "rate_limit"


@pytest.mark.parametrize(("choice", "outcome"), [("Allow once", "ok"), (None, "denied")])
async def test_an_approval_is_recorded_with_its_decider(tmp_path: Path, choice: str | None, outcome: str) -> None:
    async def decide(context: Any, params: Any) -> types.ElicitResult:
        if choice is None:
            return types.ElicitResult(action="decline")
        [field] = params.requested_schema["properties"]
        return types.ElicitResult(action="accept", content={field: choice})

    async with connect(build_audited_bridge(tmp_path, "approval: {tools: add}"), elicitation_callback=decide) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    record = read_records(tmp_path / "trail.sqlite3")[-1]
    assert record["outcome"] == outcome
    decision = {"policy": "approval", "decision": "allowed" if choice else "denied", "by": "elicitation"}
    assert decision in record["decisions"]


async def test_a_nested_call_names_its_parent(tmp_path: Path) -> None:
    async with connect(build_audited_bridge(tmp_path)) as client:
        await client.call_tool("add_twice", {"a": 2})
    first, second, outer = read_records(tmp_path / "trail.sqlite3")
    assert outer["name"] == "add_twice"
    assert [first["parent"], second["parent"]] == [outer["call"], outer["call"]]
    assert len({first["call"], second["call"], outer["call"]}) == 3


async def test_resources_and_prompts_are_recorded_too(tmp_path: Path) -> None:
    async with connect(build_audited_bridge(tmp_path)) as client:
        await client.read_resource("note://first")
        await client.get_prompt("greet", {"name": "Ada"})
    resource_call, prompt_call = read_records(tmp_path / "trail.sqlite3")
    assert (resource_call["kind"], resource_call["name"]) == ("resource", "note://first")
    assert (prompt_call["kind"], prompt_call["name"]) == ("prompt", "greet")


async def test_only_selected_calls_are_recorded(tmp_path: Path) -> None:
    bridge = build_audited_bridge(tmp_path, tools=["add*", "!add_twice"], resources="note://f*")
    async with connect(bridge) as client:
        for name in ("first", "second"):
            await client.read_resource(f"note://{name}")
        await client.call_tool("add", {"a": 1, "b": 2})
        await client.call_tool("refuse")
    assert [record["name"] for record in read_records(tmp_path / "trail.sqlite3")] == ["note://first", "add"]


async def test_a_cancelled_call_is_recorded(tmp_path: Path) -> None:
    begin = anyio.Event()

    async def report(*_: object) -> None:
        begin.set()

    async with connect(build_audited_bridge(tmp_path)) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(_call_and_report, client, report)
        await begin.wait()
        tasks.cancel_scope.cancel()
    record = await anyio.to_thread.run_sync(partial(wait_for_record, tmp_path / "trail.sqlite3", name="wait"))
    assert record["outcome"] == "cancelled"


async def _call_and_report(client: Client, report: Any) -> None:
    await client.call_tool("wait", {}, progress_callback=report)


@BOTH_LOOPS
async def test_concurrent_calls_share_commits_and_each_waits_for_its_record(tmp_path: Path) -> None:
    async with open_bridge(write_settings(tmp_path)) as bridge, anyio.create_task_group() as tasks:
        for number in range(100):
            call = ToolCall(id=str(number), name="add", arguments={"a": number, "b": 0})
            tasks.start_soon(bridge.registry.dispatch, call, RunningCall())
    digests = {record["sha256"] for record in read_records(tmp_path / "trail.sqlite3")}
    assert digests == {hash_json({"a": number, "b": 0}) for number in range(100)}


async def test_starts_are_recorded_before_the_call_runs(tmp_path: Path) -> None:
    async with connect(build_audited_bridge(tmp_path, starts=True)) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
    start, end = read_records(tmp_path / "trail.sqlite3")
    assert (start["outcome"], end["outcome"]) == ("started", "ok")
    assert start["call"] == end["call"]
    assert "duration_ms" not in start
