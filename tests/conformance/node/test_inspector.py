"""The MCP Inspector's command line lists and calls the bridge's tools, and finds nothing to object to."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.kits.node.served import Addresses
from tests.kits.node.toolchain import Toolchain, parse_output, run

pytestmark = pytest.mark.npm

VERSIONS = {"legacy": "2025-11-25", "auto": "2026-07-28", "modern": "2026-07-28"}

OK = 0
TOOL_ERROR = 5
"""The exit code for a result with isError; 6 is what --strict gives for a schema that is not portable."""

HANDED_ON = ("COVERAGE_", "PYTHON")
"""A server started by the Inspector gets a clean environment; these variables are for the tests' own sake."""


class Inspect(Protocol):
    """Run the Inspector with these options."""

    def __call__(self, transport: str, era: str, *options: str) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture(scope="module")
def inspect(node: Toolchain, home: Path, addresses: Addresses) -> Inspect:
    """Return a function that runs the Inspector against the bridge, for each transport and era."""

    def inspect(transport: str, era: str, *options: str) -> subprocess.CompletedProcess[str]:
        where = list_server_options(addresses, transport)
        plain = ["--protocol-era", era, "--format", "json"]
        return run([node.node, node.inspector, "--cli", *where, *plain, *options], node.environment(home), 120, home)

    return inspect


def list_server_options(addresses: Addresses, transport: str) -> list[str]:
    """Return the options of the Inspector for the server."""
    if transport == "stdio":
        variables = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(HANDED_ON)]
        return [word for pair in variables for word in ("-e", pair)] + list(addresses.stdio)
    return ["--server-url", getattr(addresses, transport), "--transport", transport]


def list_call_options(name: str, **arguments: Any) -> tuple[str, ...]:
    """Return the options of the Inspector for a call. `--tool-arg` would guess types, so the arguments are JSON."""
    return ("--method", "tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments))


def read_result(process: subprocess.CompletedProcess[str], code: int = OK) -> Any:
    """Return the result in the output of the Inspector, and check its exit code."""
    assert process.returncode == code, process.stderr
    return parse_output(process.stdout)["result"]


@pytest.mark.parametrize(("transport", "era"), [("stdio", "modern"), ("http", "legacy")])
def test_the_tools_are_listed_and_their_schemas_are_portable(inspect: Inspect, transport: str, era: str) -> None:
    process = inspect(transport, era, "--method", "tools/list", "--strict")
    listing = read_result(process)
    assert [tool["name"] for tool in listing["tools"]] == ["add", "countdown", "greet", "refuse"]
    assert "Warning: tool" not in process.stderr


@pytest.mark.parametrize(("transport", "era"), [("http", "modern"), ("sse", "legacy")])
def test_a_tool_is_called(inspect: Inspect, transport: str, era: str) -> None:
    answer = read_result(inspect(transport, era, *list_call_options("add", a=19, b=23)))
    assert answer["content"] == [{"type": "text", "text": "42"}]
    assert not answer.get("isError")


@pytest.mark.parametrize(("transport", "era"), [("stdio", "legacy"), ("http", "modern")])
def test_an_error_of_a_tool_is_shown_as_such(inspect: Inspect, transport: str, era: str) -> None:
    answer = read_result(inspect(transport, era, *list_call_options("refuse", reason="not today")), TOOL_ERROR)
    assert answer["isError"] is True
    assert answer["content"] == [{"type": "text", "text": "I refuse: not today"}]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_bad_arguments_are_shown_with_their_place(inspect: Inspect, era: str) -> None:
    answer = read_result(inspect("http", era, *list_call_options("add", a="many", b=1)), TOOL_ERROR)
    assert "$.a" in answer["content"][0]["text"]


@pytest.mark.parametrize(
    ("transport", "era"), [("stdio", "legacy"), ("stdio", "auto"), ("http", "modern"), ("sse", "auto")]
)
def test_the_era_asked_for_is_the_one_spoken(inspect: Inspect, transport: str, era: str) -> None:
    assert read_result(inspect(transport, era, "--method", "initialize"))["protocolVersion"] == VERSIONS[era]
