"""The official TypeScript client and the bridge understand each other, on every transport in both eras."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kits.node.served import Addresses
from tests.kits.node.toolchain import HERE, Toolchain, parse_output, run

pytestmark = pytest.mark.npm

TRANSPORTS = ("stdio", "http", "sse")
VERSIONS = {"legacy": "2025-11-25", "modern": "2026-07-28", "auto": "2026-07-28"}
"""What a client that asks for an era ends up speaking with us."""

CALLS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "a sum": ("add", {"a": 19, "b": 23}),
    "a greeting": ("greet", {"name": "Ada"}),
    "an excited greeting": ("greet", {"name": "Ada", "excited": True}),
    "a countdown": ("countdown", {"steps": 3}),
    "a refusal": ("refuse", {"reason": "not today"}),
    "a wrong type": ("add", {"a": "many", "b": 1}),
    "a missing argument": ("add", {"b": 1}),
    "an unknown tool": ("subtract", {"a": 1, "b": 1}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The report of one run of the client."""

    era: str
    report: Mapping[str, Any]

    def tool(self, name: str) -> Mapping[str, Any]:
        """A tool as it was listed."""
        tools: Mapping[str, Mapping[str, Any]] = {tool["name"]: tool for tool in self.report["tools"]}
        return tools[name]

    def outcome(self, call: str) -> Mapping[str, Any]:
        """Return the whole outcome of one of CALLS."""
        outcomes: Sequence[Mapping[str, Any]] = self.report["results"]
        return outcomes[list(CALLS).index(call)]

    def result(self, call: str) -> Mapping[str, Any]:
        """Return the result of one of CALLS, and assert that it has one."""
        outcome = self.outcome(call)
        assert "result" in outcome, outcome
        result: Mapping[str, Any] = outcome["result"]
        return result


def converse(node: Toolchain, home: Path, transport: str, era: str, target: str) -> Mapping[str, Any]:
    """Run the client once: list everything, make all CALLS."""
    calls = [{"name": name, "arguments": arguments} for name, arguments in CALLS.values()]
    options = ["--transport", transport, "--era", era, "--target", target, "--calls", json.dumps(calls)]
    process = run([node.node, HERE / "client.mjs", *options], node.environment(home), 120, home)
    assert process.returncode == 0, process.stderr
    return parse_output(process.stdout)


@pytest.fixture(
    scope="module",
    params=[*((transport, era) for transport in TRANSPORTS for era in ("legacy", "modern")), ("stdio", "auto")],
    ids="-".join,
)
def session(request: pytest.FixtureRequest, node: Toolchain, home: Path, addresses: Addresses) -> Session:
    """Return the results of one run of the client, for all tests of a transport and an era."""
    transport, era = request.param
    address: str | Sequence[str] = getattr(addresses, transport)
    target = address if isinstance(address, str) else json.dumps(address)
    return Session(era=era, report=converse(node, home, transport, era, target))


def get_text(result: Mapping[str, Any]) -> str:
    """Return the only text of a result."""
    (block,) = result["content"]
    assert block["type"] == "text"
    return str(block["text"])


def get_structured_value(session: Session, call: str) -> Any:
    """Return the structured value of a result, without the object around plain values in the handshake era.

    The client has already validated it, if the tool has an output schema. Without one there must be no value.
    """
    content = session.result(call).get("structuredContent")
    if content is None:
        assert "outputSchema" not in session.tool(CALLS[call][0])
    return content["result"] if isinstance(content, dict) else content


def test_client_and_server_agree_on_version_and_capabilities(session: Session) -> None:
    assert session.report["protocolVersion"] == VERSIONS[session.era]
    assert session.report["serverInfo"]["name"]
    assert session.report["serverInfo"]["version"]
    assert "tools" in session.report["capabilities"]


def test_every_tool_is_listed_once_with_its_docstring_and_signature(session: Session) -> None:
    assert [tool["name"] for tool in session.report["tools"]] == ["add", "countdown", "greet", "refuse"]
    assert session.tool("add")["description"].startswith("Add two whole numbers.")
    assert session.tool("add")["inputSchema"]["properties"]["a"]["description"] == "The first number."
    schema = session.tool("greet")["inputSchema"]
    assert (schema["type"], schema["required"]) == ("object", ["name"])
    assert schema["properties"]["name"]["type"] == "string"
    assert schema["properties"]["excited"]["type"] == "boolean"
    # The context is not a parameter.
    assert list(session.tool("countdown")["inputSchema"]["properties"]) == ["steps"]


def test_results_are_text_and_structure(session: Session) -> None:
    assert not session.result("a sum").get("isError")
    assert get_text(session.result("a sum")) == "42"
    assert get_structured_value(session, "a sum") == 42
    assert get_text(session.result("a greeting")) == "Hello, Ada."
    assert get_text(session.result("an excited greeting")) == "Hello, Ada!"
    assert get_structured_value(session, "an excited greeting") in ("Hello, Ada!", None)


def test_progress_is_reported_step_by_step_and_only_to_its_call(session: Session) -> None:
    outcome = session.outcome("a countdown")
    assert [(step["progress"], step["total"]) for step in outcome["progress"]] == [(1, 3), (2, 3), (3, 3)]
    assert get_text(outcome["result"]) == "counted 3 steps"
    assert session.outcome("a sum")["progress"] == []


def test_failures_of_tools_and_bad_arguments_are_results_with_an_error(session: Session) -> None:
    for call, message in (
        ("a refusal", "I refuse: not today"),
        ("a wrong type", "$.a"),
        ("a missing argument", "$.a"),
    ):
        result = session.result(call)
        assert result["isError"] is True
        assert message in get_text(result)
        assert "structuredContent" not in result


def test_an_unknown_tool_is_a_protocol_error(session: Session) -> None:
    error = session.outcome("an unknown tool")["error"]
    assert error["code"] == -32602
    assert "subtract" in error["message"]
