"""`export mcp-json` and `export links` print entries and links for clients."""

from __future__ import annotations

import base64
import json
import tomllib
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from ruamel.yaml import YAML

from mcp_bridge._desktop.table import CLIENTS
from tests.kits.packaging.packaging_kit import KEY, call_tool, get_clean_environment, run_in_process

READERS = {
    "json": json.loads,
    "jsonc": json.loads,
    "toml": tomllib.loads,
    "yaml": lambda text: YAML(typ="safe").load(text),
}


def export(folder: Path, *args: str) -> str:
    result = run_in_process(folder, "export", "mcp-json", *args)
    assert result.code == 0, result.err
    return result.out


def test_the_client_file_is_the_one_that_claude_code_reads(project_folder: Path) -> None:
    (server,) = json.loads(export(project_folder))["mcpServers"].values()
    assert server["type"] == "stdio"
    assert Path(server["command"]).is_absolute()
    assert server["args"][-2:] == ["serve", str(project_folder / "mcp-bridge.yaml")]
    assert server["env"] == {"SHELF_KEY": "${SHELF_KEY}"}


async def test_the_command_in_the_client_file_starts_a_server(project_folder: Path) -> None:
    (server,) = json.loads(export(project_folder))["mcpServers"].values()
    env = get_clean_environment(SHELF_KEY=KEY)
    assert await call_tool(server["command"], server["args"], env, "our__look", {"item": "pears"}) == "3 pears."


@pytest.mark.parametrize("client", [name for name, client in CLIENTS.items() if not client.places[0].script])
def test_each_client_file_has_the_format_and_container_of_its_client(project_folder: Path, client: str) -> None:
    text = export(project_folder, "--client", client, "--name", "the-one")
    formats = {place.format for place in CLIENTS[client].places}
    data = [READERS[format](text) for format in formats]
    assert str(project_folder / "mcp-bridge.yaml") in text
    assert "the-one" in text
    assert KEY not in text
    assert all(any(place.within[0] in result for place in CLIENTS[client].places) for result in data)


def test_the_file_of_a_client_with_a_script_is_a_line_of_it(project_folder: Path) -> None:
    line = export(project_folder, "--client", "crush", "--name", "the-one")
    assert line.startswith("mcp add the-one --type stdio --command ")
    assert line.count("\n") == 1


def test_inspector_tries_both_eras(project_folder: Path) -> None:
    (server,) = json.loads(export(project_folder, "--client", "inspector"))["mcpServers"].values()
    assert server["protocolEra"] == "auto"
    assert "env" not in server


def test_values_that_are_needed_are_named_and_not_in_it(project_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELF_KEY", KEY)
    result = run_in_process(project_folder, "export", "mcp-json")
    assert "Set these variables where the client starts the server: SHELF_KEY" in result.err
    assert KEY not in result.out + result.err


def test_a_file_with_content_is_not_overwritten(project_folder: Path) -> None:
    file = project_folder / ".mcp.json"
    file.write_text('{"mcpServers": {"mine": {}}}')
    result = run_in_process(project_folder, "export", "mcp-json", "--output", ".mcp.json")
    assert result.code == 2
    assert ".mcp.json: the file exists, and its content would be lost. `mcp-bridge install` adds" in result.err
    assert file.read_text() == '{"mcpServers": {"mine": {}}}'
    file.write_text("")
    assert run_in_process(project_folder, "export", "mcp-json", "--output", ".mcp.json").code == 0
    assert "my-shelf" in file.read_text().lower()


def test_an_unknown_client_is_reported_with_the_known_ones(project_folder: Path) -> None:
    result = run_in_process(project_folder, "export", "mcp-json", "--client", "unknown-client")
    assert result.code == 2
    assert "--client: 'unknown-client' is not a client. Name one of: claude-desktop, claude-code" in result.err
    assert "inspector" in result.err


def test_links_lead_cursor_and_vs_code_to_the_same_server(project_folder: Path) -> None:
    result = run_in_process(project_folder, "export", "mcp-json", "--links")
    assert result.code == 0, result.err
    links = dict(line.split("\t") for line in result.out.splitlines())
    cursor = parse_qs(urlsplit(links["cursor"]).query)
    assert cursor["name"] == ["my-shelf"] or cursor["name"] == ["My-Shelf"]
    for_cursor = json.loads(base64.b64decode(cursor["config"][0]))
    for_code = json.loads(unquote(links["vscode"].removeprefix("vscode:mcp/install?")))
    assert for_code["args"][-1] == for_cursor["args"][-1] == str(project_folder / "mcp-bridge.yaml")
    assert for_code["command"] == for_cursor["command"]
    assert KEY not in result.out
