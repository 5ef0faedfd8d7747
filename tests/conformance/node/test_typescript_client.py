"""The official TypeScript client and the bridge understand each other, on every transport in both eras."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kits.node.served import Addresses
from tests.kits.node.toolchain import HERE, Toolchain, decoded, run

pytestmark = [pytest.mark.npm, pytest.mark.timeout(300)]

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
    """What one run of the client reported."""

    era: str
    report: Mapping[str, Any]

    def tool(self, name: str) -> Mapping[str, Any]:
        """A tool as it was listed."""
        tools: Mapping[str, Mapping[str, Any]] = {tool["name"]: tool for tool in self.report["tools"]}
        return tools[name]

    def outcome(self, call: str) -> Mapping[str, Any]:
        """All that came of one of CALLS."""
        outcomes: Sequence[Mapping[str, Any]] = self.report["results"]
        return outcomes[list(CALLS).index(call)]

    def result(self, call: str) -> Mapping[str, Any]:
        """The result of one of CALLS, which must have one."""
        outcome = self.outcome(call)
        assert "result" in outcome, outcome
        result: Mapping[str, Any] = outcome["result"]
        return result


def converse(node: Toolchain, home: Path, transport: str, era: str, target: str) -> Mapping[str, Any]:
    """Run the client once: list everything, make all CALLS."""
    calls = [{"name": name, "arguments": arguments} for name, arguments in CALLS.values()]
    asked = ["--transport", transport, "--era", era, "--target", target, "--calls", json.dumps(calls)]
    done = run([node.node, HERE / "client.mjs", *asked], node.environment(home), 60, home)
    assert done.returncode == 0, done.stderr
    return decoded(done.stdout)


@pytest.fixture(
    scope="module",
    params=[(transport, era) for transport in TRANSPORTS for era in VERSIONS],
    ids=lambda param: "-".join(param),
)
def session(request: pytest.FixtureRequest, node: Toolchain, home: Path, addresses: Addresses) -> Session:
    """One conversation for all tests of a transport and an era."""
    transport, era = request.param
    address: str | Sequence[str] = getattr(addresses, transport)
    target = address if isinstance(address, str) else json.dumps(address)
    return Session(era=era, report=converse(node, home, transport, era, target))


def text(result: Mapping[str, Any]) -> str:
    """The text of a result that consists of one text."""
    (block,) = result["content"]
    assert block["type"] == "text"
    return str(block["text"])


def structured(session: Session, call: str) -> Any:
    """The structured value of a result, out of the object that the handshake era needs around a plain value.

    A tool that declares an output schema owes one; the client has held it against that schema already.
    """
    content = session.result(call).get("structuredContent")
    if content is None:
        assert "outputSchema" not in session.tool(CALLS[call][0])
    return content["result"] if isinstance(content, dict) else content


def test_the_protocol_version_is_the_one_of_the_era_asked_for(session: Session) -> None:
    assert session.report["protocolVersion"] == VERSIONS[session.era]


def test_the_server_says_who_it_is_and_that_it_has_tools(session: Session) -> None:
    assert session.report["serverInfo"]["name"]
    assert session.report["serverInfo"]["version"]
    assert "tools" in session.report["capabilities"]


def test_every_tool_is_listed_once_in_the_order_of_names(session: Session) -> None:
    assert [tool["name"] for tool in session.report["tools"]] == ["add", "countdown", "greet", "refuse"]


def test_descriptions_come_from_the_docstrings(session: Session) -> None:
    assert session.tool("add")["description"].startswith("Add two whole numbers.")
    described = session.tool("add")["inputSchema"]["properties"]["a"]["description"]
    assert described == "The first number."


def test_input_schemas_come_from_the_signatures(session: Session) -> None:
    schema = session.tool("greet")["inputSchema"]
    assert schema["type"] == "object"
    assert schema["required"] == ["name"]
    assert schema["properties"]["name"]["type"] == "string"
    assert schema["properties"]["excited"]["type"] == "boolean"


def test_the_context_of_a_call_is_no_parameter(session: Session) -> None:
    assert list(session.tool("countdown")["inputSchema"]["properties"]) == ["steps"]


def test_a_number_comes_back_as_text_and_as_itself(session: Session) -> None:
    result = session.result("a sum")
    assert not result.get("isError")
    assert text(result) == "42"
    assert structured(session, "a sum") == 42


def test_a_string_comes_back_without_quotes(session: Session) -> None:
    assert text(session.result("a greeting")) == "Hello, Ada."
    assert text(session.result("an excited greeting")) == "Hello, Ada!"
    assert structured(session, "an excited greeting") in ("Hello, Ada!", None)


def test_progress_is_told_step_by_step_and_only_to_its_call(session: Session) -> None:
    outcome = session.outcome("a countdown")
    assert [(step["progress"], step["total"]) for step in outcome["progress"]] == [(1, 3), (2, 3), (3, 3)]
    assert text(outcome["result"]) == "counted 3 steps"
    assert session.outcome("a sum")["progress"] == []


def test_a_refusal_is_a_result_with_the_words_of_its_author(session: Session) -> None:
    result = session.result("a refusal")
    assert result["isError"] is True
    assert text(result) == "I refuse: not today"
    assert "structuredContent" not in result


@pytest.mark.parametrize("call", ["a wrong type", "a missing argument"])
def test_bad_arguments_are_a_result_that_names_the_place(session: Session, call: str) -> None:
    result = session.result(call)
    assert result["isError"] is True
    assert "$.a" in text(result)
    assert "structuredContent" not in result


def test_an_unknown_tool_is_a_protocol_error(session: Session) -> None:
    error = session.outcome("an unknown tool")["error"]
    assert error["code"] == -32602
    assert "subtract" in error["message"]
