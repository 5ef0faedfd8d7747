"""A server tries to harm the client of the bridge by its reports, questions and names."""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from mcp.client import Client
from mcp_types import CreateMessageResult, ElicitResult, SamplingCapability, SamplingToolsCapability, TextContent

from mcp_bridge._upstream.trust.screening import MAX_LINE, MAX_TEXT
from mcp_bridge.testing import connect
from tests.kits.upstream.upstream_kit import build_gateway

SERVER = Path(__file__).parents[2] / "kits/upstream/hostile_server.py"
BAD = ("\x1b", "\x07", "\U000e0041")


@contextlib.asynccontextmanager
async def connect_to(folder: Path, case: str, requests: list[Any] | None = None) -> AsyncIterator[Client]:
    """Connect a client of the handshake era. `requests` gets the texts of all messages."""
    requests = [] if requests is None else requests

    async def receive_log(params: Any) -> None:
        requests.append((params.logger, params.data))

    async def answer(context: Any, params: Any) -> ElicitResult:
        requests.append(params.model_dump(mode="json"))
        return ElicitResult(action="decline")

    async def sample(context: Any, params: Any) -> CreateMessageResult:
        requests.append(params.model_dump(mode="json"))
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text="short"), model="m")

    bridge = build_gateway(folder, {"evil": {"command": sys.executable, "args": ["-I", str(SERVER), case]}})
    with warnings.catch_warnings():
        # Sampling is deprecated.
        warnings.simplefilter("ignore")
        async with connect(
            bridge,
            mode="legacy",
            logging_callback=receive_log,
            elicitation_callback=answer,
            sampling_callback=sample,
            sampling_capabilities=SamplingCapability(tools=SamplingToolsCapability()),
        ) as client:
            yield client


def is_harmless(value: Any, size: int) -> bool:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return len(text) <= size and not any(item in text for item in ("\\u001b", "\\u0007", *BAD))


@pytest.mark.parametrize("case", ["names", "error"])
async def test_the_state_of_a_server_is_screened_and_short(tmp_path: Path, case: str) -> None:
    async with connect_to(tmp_path, case) as client:
        contents = (await client.read_resource("bridge://status")).contents
    (source,) = json.loads(contents[0].text)["sources"]  # type: ignore[union-attr]
    assert source["server"].startswith("evil") or case == "error"
    assert all(is_harmless(source[key], MAX_LINE + 50) for key in ("server", "version", "reason"))


async def test_entries_with_hidden_or_very_long_names_are_not_published(tmp_path: Path) -> None:
    async with connect_to(tmp_path, "names") as client:
        tools = (await client.list_tools()).tools
        resources = (await client.list_resources()).resources
    assert [tool.name for tool in tools] == ["evil__go"]
    assert {str(item.uri): item.mime_type for item in resources if item.name == "a"} == {"file:///a": None}


async def test_log_messages_are_screened_and_of_limited_size(tmp_path: Path) -> None:
    messages: list[Any] = []
    async with connect_to(tmp_path, "logs", messages) as client:
        await client.call_tool("evil__go", {})
    assert len(messages) == 3
    assert messages[2] == (None, "good")
    assert all(is_harmless(item, MAX_TEXT + MAX_LINE + 50) for item in messages)


async def test_invalid_progress_is_dropped_and_messages_are_screened(tmp_path: Path) -> None:
    messages: list[Any] = []

    async def receive_progress(*values: Any) -> None:
        messages.append(values)

    async with connect_to(tmp_path, "progress") as client:
        await client.call_tool("evil__go", {}, progress_callback=receive_progress)
    ((progress, total, message),) = messages
    assert (progress, total) == (2, None)
    assert message.startswith("Half")
    assert is_harmless(message, MAX_TEXT + 50)


async def test_the_texts_of_a_question_are_screened(tmp_path: Path) -> None:
    messages: list[Any] = []
    async with connect_to(tmp_path, "poisoned form", messages) as client:
        await client.call_tool("evil__go", {})
    assert messages[0]["message"].startswith("[evil] Really?")
    assert is_harmless(messages[0], MAX_TEXT + 500)


async def test_parts_of_a_form_that_cannot_be_checked_are_removed(tmp_path: Path) -> None:
    messages: list[Any] = []
    async with connect_to(tmp_path, "imperfect form", messages) as client:
        await client.call_tool("evil__go", {})
    assert messages[0]["requested_schema"] == {"type": "object", "properties": {"mail": {"type": "string"}}}


async def test_the_texts_of_a_request_for_sampling_are_screened_and_not_truncated(tmp_path: Path) -> None:
    messages: list[Any] = []
    async with connect_to(tmp_path, "poisoned sampling", messages) as client:
        result = await client.call_tool("evil__go", {})
    assert '"text": "short"' in result.content[0].text  # type: ignore[union-attr]
    assert messages[0]["messages"][0]["content"]["text"] == "Summarize." + "x" * 200_000
    assert (messages[0]["system_prompt"], messages[0]["tools"][0]["description"]) == ("Be short.", "Look.")
    assert is_harmless(messages[0], 250_000)


async def test_the_errors_of_a_server_are_screened(tmp_path: Path) -> None:
    async with connect_to(tmp_path, "poisoned error") as client:
        result = await client.call_tool("evil__go", {})
        with pytest.raises(MCPError) as exc_info:
            await client.read_resource("file:///a")
        contents = (await client.read_resource("bridge://status")).contents
    text = result.content[0].text  # type: ignore[union-attr]
    assert result.is_error
    for error in (text, exc_info.value.error.message):
        assert error.startswith("Failed.xxx")
        assert is_harmless(error, MAX_TEXT + 50)
    (source,) = json.loads(contents[0].text)["sources"]  # type: ignore[union-attr]
    assert source["problems"][0].startswith("prompts/list failed: Failed.xxx")
    assert is_harmless(source["problems"][0], MAX_LINE + 50)


@pytest.mark.parametrize("case", ["poisoned capability", "malformed capability"])
async def test_a_server_can_require_only_capabilities_that_exist(tmp_path: Path, case: str) -> None:
    async with connect_to(tmp_path, case) as client:
        result = await client.call_tool("evil__go", {})
    expected = "m" if case == "poisoned capability" else "it has not declared the capability elicitation."
    assert result.content[0].text.endswith(expected)  # type: ignore[union-attr]
    assert is_harmless(result.model_dump(mode="json"), 500)


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ("deep form", "the form is too large: nested deeper than 64 levels"),
        ("hidden tool in sampling", "the sampling request has invisible characters"),
        ("large sampling", "the sampling request is too large"),
        ("form of text", "requestedSchema must be an object"),
        ("form without text", "message must be a text"),
        ("hidden name", "invisible characters"),
        ("user in a link", "must not have a user before its host"),
    ],
)
async def test_a_question_that_deceives_the_user_is_rejected(tmp_path: Path, case: str, problem: str) -> None:
    messages: list[Any] = []
    async with connect_to(tmp_path, case, messages) as client:
        result = await client.call_tool("evil__go", {})
    assert messages == []
    assert problem in result.content[0].text  # type: ignore[union-attr]
