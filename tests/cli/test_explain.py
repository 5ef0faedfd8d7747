"""`explain`: the layers of a call in order, and the reason of the layer that stops it, without running the tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kits.cli.cli_running import RunHere
from tests.kits.redis_server import redis_process, redis_server  # noqa: F401

TOOLS = '''
from pathlib import Path
from mcp_bridge import tool


@tool(annotations={"readOnlyHint": True})
def read_note(title: str) -> dict:
    """Read."""
    Path("ran").touch()
    return {"title": title}


@tool
def delete_note(title: str) -> str:
    """Delete."""
    Path("ran").touch()
    return title
'''
NOT_CHECKED = "not checked, because no arguments are given"
POLICY: list[Any] = [
    {"deny": {"principals": "guest", "tools": "delete_*"}},
    {"rate_limit": {"limit": "2/day"}},
    {"approval": {"tools": "delete_*"}},
    "cache",
    "retry",
    {"redact": {"patterns": "email", "apply_to": "arguments"}},
]


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    return write(tmp_path, POLICY)


def write(folder: Path, policy: Any, **settings: Any) -> Path:
    file = folder / "mcp-bridge.json"
    file.write_text(json.dumps({"sources": [{"type": "python", "path": "tools.py"}], "policy": policy, **settings}))
    return file


def test_the_layers_are_shown_in_the_order_of_the_call(run_here: RunHere, settings: Path, tmp_path: Path) -> None:
    result = run_here("explain", "read_note", "title=ada@example.org")
    lines = [line.split("  ") for line in result.out.splitlines()]
    assert [line[0] for line in lines if line[0]][1:-2] == [
        "redact", "rate_limit", "validate arguments", "cache", "retry", "limit concurrent calls", "limit time",
        "validate output", "run the tool",
    ]  # fmt: skip
    assert "These policies do nothing for 'read_note': deny, approval." in result.out
    assert result.out.endswith("The call to 'read_note' would run.\n")
    assert result.code == 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("words", "code", "end"),
    [
        (["delete_note"], 0, "The call to 'delete_note' would run if the user allows it."),
        (["delete_note", "--principal", "guest"], 1, "The call to 'delete_note' would be stopped by: deny."),
        (["delete_note", "title:=3"], 1, "The call to 'delete_note' would be stopped by: validate arguments."),
        (["delete_note", "--arguments", '{"title": "x"}'], 0, "would run if the user allows it."),
    ],
)
def test_the_last_line_has_the_outcome_of_the_call(
    run_here: RunHere, settings: Path, words: list[str], code: int, end: str
) -> None:
    result = run_here("explain", settings, *words)
    assert result.out.rstrip().endswith(end)
    assert result.code == code


def test_json_has_each_layer_with_its_reason(run_here: RunHere, settings: Path) -> None:
    explanation = run_here("explain", "delete_note", "--principal", "guest", "--json").json
    assert (explanation["tool"], explanation["principal"], explanation["outcome"]) == ("delete_note", "guest", "stops")
    assert explanation["unused_policies"] == ["cache", "retry"]
    outcomes = {layer["layer"]: layer["outcome"] for layer in explanation["layers"]}
    assert (outcomes["redact"], outcomes["deny"], outcomes["approval"]) == ("passes", "stops", "not reached")
    reason = next(layer["reason"] for layer in explanation["layers"] if layer["layer"] == "deny")
    assert reason == "the settings of this server deny it for the principal 'guest'"


@pytest.mark.parametrize("policy", ["read_only", {"allow": {"tools": "other"}}])
def test_a_policy_that_stops_every_call_is_named(
    run_here: RunHere, settings: Path, policy: Any, tmp_path: Path
) -> None:
    write(tmp_path, [policy])
    result = run_here("explain", "delete_note")
    name = policy if isinstance(policy, str) else next(iter(policy))
    assert f"would be stopped by: {name}." in result.out


def test_policies_for_other_principals_pass(run_here: RunHere, settings: Path, tmp_path: Path) -> None:
    ann = {"principals": "ann"}
    limit = {"rate_limit": {**ann, "limit": "1/day"}}
    write(tmp_path, [limit, *({name: ann} for name in ("read_only", "approval", "redact"))])
    explanation = run_here("explain", "delete_note", "--json").json
    assert {layer["layer"]: layer["reason"] for layer in explanation["layers"]} == {
        "redact": "", "read_only": "", "rate_limit": "", "validate arguments": NOT_CHECKED, "approval": "",
        "limit concurrent calls": "", "limit time": "60 seconds", "run the tool": "",
    }  # fmt: skip
    assert explanation["outcome"] == "passes"


def test_the_steps_of_a_chain_are_explained_too(run_here: RunHere, settings: Path, tmp_path: Path) -> None:
    steps = [{"tool": name, "input": {"title": "title"}} for name in ("read_note", "delete_note")]
    chains = {
        "tidy": {"steps": steps},
        "all": {"steps": [{"tool": "tidy"}, {"tool": "read_note"}]},
        "most": {"steps": [{"tool": "tidy", "continue_on_failure": True}, {"tool": "read_note"}]},
    }
    write(tmp_path, POLICY, chains=chains)
    explanation = run_here("explain", "tidy", "--json").json
    assert explanation["outcome"] == "asks"
    assert [[*layer.values()] for layer in explanation["layers"][-2:]] == [
        ["step 1: read_note", "passes", ""],
        ["step 2: delete_note", "asks", "approval: without an answer, the default is: deny"],
    ]
    result = run_here("explain", "all", "--principal", "guest")
    assert result.out.rstrip().endswith("The call to 'all' would be stopped by: step 1: tidy.")
    assert [line.split()[-2:] for line in result.out.splitlines() if line.startswith("step 2")] == [["not", "reached"]]
    assert run_here("explain", "most", "--principal", "guest").code == 0
    assert not (tmp_path / "ran").exists()


def test_a_limit_in_redis_is_read_and_not_counted(
    run_here: RunHere,
    settings: Path,
    tmp_path: Path,
    redis_server: str,  # noqa: F811
) -> None:
    limit = {"limit": "1/day"}
    write(tmp_path, [{"rate_limit": limit}], state={"store": redis_server})
    assert [run_here("explain", "delete_note").code for _ in range(2)] == [0, 0]
    assert run_here("call", "delete_note", "title=x").code == 0
    result = run_here("explain", "delete_note")
    assert "at most 1 call per day for each tool and for each principal. Retry in" in result.out
    assert result.code == 1


def test_an_unknown_tool_is_an_error(run_here: RunHere, settings: Path) -> None:
    result = run_here("explain", "read_not")
    assert result.err == "mcp-bridge: Unknown tool: read_not. Did you mean 'read_note'?\n"
    assert result.code == 3


def test_hooks_are_layers_whose_decision_is_unknown(run_here: RunHere, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "hours.py").write_text(HOURS)
    source = {"type": "hours:Hours"}
    sources = [{"type": "python", "path": "tools.py"}, source]
    (tmp_path / "mcp-bridge.json").write_text(json.dumps({"sources": sources}))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        result = run_here("explain", "delete_note", "title=x")
    assert "OfficeHours             unknown  it decides when it runs" in result.out


HOURS = """
from mcp_bridge.middleware import Stage
from mcp_bridge.sources import Source


class OfficeHours:
    stage = Stage.DECIDE

    async def __call__(self, call, ctx, call_next):
        return await call_next(call, ctx)


class Hours(Source):
    middleware = [OfficeHours()]

    async def run(self, publish):
        pass
"""
