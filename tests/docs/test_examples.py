"""Every example in config/ is served to the official client."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client

from tests.kits.constants import TIMEOUT
from tests.kits.forked_commands import get_forked_command
from tests.kits.paths import ROOT

EXPECTED = {
    "agent.yaml": ["ask_host", "count", "greet", "shout", "temperature"],
    "agent_sampling.yaml": ["count", "greet", "run_agent", "shout", "temperature"],
    "amplifier.yaml": ["count", "greet", "shout", "temperature"],
    "approvals.yaml": ["count", "greet", "shout", "temperature"],
    "audit.yaml": ["count", "shout", "temperature"],
    "chains.yaml": ["count", "describe", "loud_report", "shout", "temperature"],
    "commands.yaml": ["search", "sort_lines", "temperature"],
    "demo.yaml": ["count", "shout", "temperature"],
    "dialect.yaml": ["count", "shout", "temperature"],
    "environment.yaml": ["count", "shout", "temperature"],
    "frameworks.yaml": ["count", "echo", "initials", "shout", "temperature", "turn"],
    "gateway.yaml": ["demo__count", "demo__temperature", "shout"],
    "http.yaml": ["count", "shout", "temperature"],
    "isolation.yaml": ["count", "shout", "temperature"],
    "limits.yaml": ["count", "shout", "temperature"],
    "names.yaml": ["first__count", "first__shout", "how_warm"],
    "openapi.yaml": ["add_book", "count", "get_book", "list_books", "shout", "temperature"],
    "policies.yaml": ["count", "shout", "temperature"],
    "page.yaml": ["count", "shout", "temperature"],
    "python.yaml": ["count", "shout", "temperature"],
    "skills.yaml": ["count", "shout", "temperature"],
    "state.yaml": ["count", "shout", "temperature"],
    "tasks.yaml": ["count", "shout", "temperature"],
    "tool_search.yaml": [
        *("call_tool", "get_prompt", "list_prompts", "list_resources", "read_resource", "search_tools", "temperature"),
    ],
    "xaibo.yaml": ["temperature"],
    "settings.toml": ["toml__count", "toml__shout", "toml__temperature"],
}


_PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
"""A PATH on which `mcp-bridge` is the one of this checkout."""


def test_every_example_has_an_expectation() -> None:
    names = {path.name for path in (ROOT / "config").iterdir() if path.suffix in {".yaml", ".toml"}}
    assert names == set(EXPECTED)


def test_the_page_of_examples_has_every_example() -> None:
    text = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    names = {path.name for path in (ROOT / "config").iterdir()} - {"__pycache__"}
    assert [name for name in sorted(names) if f"](../config/{name})" not in text and f"`{name}" not in text] == []


@pytest.mark.parametrize(("name", "tools"), EXPECTED.items())
async def test_an_example_is_served(name: str, tools: list[str], tmp_path: Path) -> None:
    server = StdioServerParameters(
        command=get_forked_command()[0],
        args=[*get_forked_command()[1:], "mcp_bridge", "serve", str(ROOT / "config" / name)],
        env=get_default_environment() | {"PATH": _PATH} | {key: os.environ[key] for key in os.environ if "COV" in key},
        cwd=tmp_path,
    )
    with anyio.fail_after(TIMEOUT):
        async with Client(stdio_client(server)) as client:
            while name == "gateway.yaml" and len((await client.list_tools()).tools) < len(tools):  # noqa: ASYNC110
                # A slow server does not delay the others.
                await anyio.sleep(0.05)
            assert [tool.name for tool in (await client.list_tools()).tools] == tools
            warm = next(name for name in tools if name.endswith(("temperature", "how_warm")))
            result = await client.call_tool(warm, {"city": "Oslo"})
            assert result.content[0].text == "4.0"
