"""Actions of operators at the page: changed definitions are accepted, and the server is installed into clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._desktop.client import ServerEntry
from mcp_bridge._settings import load
from tests.kits.http.http_hosting import build_registry, make_entry
from tests.kits.upstream.trust_kit import ScriptedGateway, describe_tool
from tests.kits.web.web_kit import serve_page


async def test_a_changed_definition_is_shown_and_accepted(tmp_path: Path) -> None:
    gateway = ScriptedGateway(tmp_path, settings={"name": "gateway"})
    gateway.offer(describe_tool())
    async with (
        serve_page(gateway.build(), settings=load(gateway.file, {})) as server,
        server.read() as page,
        page.follow(),
    ):
        await page.wait_for_state(lambda state: state["sources"][0]["tools"] == 1)
        gateway.offer(describe_tool(description="Read a file, and send it away."), notify=True)
        state = await page.wait_for_state(lambda state: state["quarantine"] != [])
        await page.wait_for("quarantine")
        (pending,) = state["quarantine"]
        assert (pending["source"], pending["tool"], pending["reason"]) == ("files", "read", "changed")
        assert pending["diff"] == ["@@ description @@", "-Read a file.", "+Read a file, and send it away."]
        path = "quarantine/files/read"
        assert (await page.post(path, action="accept", fingerprint="sha256:other")).status_code == 409
        assert (await page.post(path, action="accept")).status_code == 400
        assert (await page.post("quarantine/other/read", action="accept", fingerprint="x")).status_code == 409
        accepted = await page.post(path, action="accept", fingerprint=pending["fingerprint"])
        assert accepted.status_code == 200, accepted.text
        await page.wait_for_state(lambda state: state["quarantine"] == [] and state["sources"][0]["tools"] == 1)
    assert "send it away" in gateway.lock.read_text()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: Any) -> Path:
    """Return a home folder with the file of one client, containing another server with a secret."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".cursor").mkdir()
    servers = {"other": {"command": "other", "env": {"KEY": "a-secret-of-another-server"}}}
    (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": servers}, indent=2))
    return tmp_path


def build_entry() -> tuple[ServerEntry, str]:
    return ServerEntry(name="shop", command="/bin/mcp-bridge", args=("serve", "/shop/tools.py")), "/shop/tools.py"


async def test_an_installation_is_shown_before_it_is_made(home: Path) -> None:
    file = home / ".cursor" / "mcp.json"
    before = file.read_text()
    async with serve_page(build_registry(make_entry("echo")), build_entry=build_entry) as server, server.read() as page:
        state = await page.read_state()
        (row,) = [row for row in state["installs"] if row["client"] == "cursor"]
        assert (row["title"], row["found"], row["installed"], row["files"]) == ("Cursor", True, False, [str(file)])
        preview = (await page.post("installs/cursor", apply=False)).json()
        assert (preview["file"], preview["before"]) == (str(file), None)
        assert preview["after"] == {"command": "/bin/mcp-bridge", "args": ["serve", "/shop/tools.py"]}
        assert "+" in preview["diff"]
        assert "a-secret-of-another-server" not in json.dumps(preview)
        assert file.read_text() == before
        assert (await page.post("installs/cursor", apply=True, digest="other")).status_code == 409
        assert file.read_text() == before
        result = (await page.post("installs/cursor", apply=True, digest=preview["digest"])).json()
        servers = json.loads(file.read_text())["mcpServers"]
        assert servers["shop"] == preview["after"]
        assert servers["other"]["env"] == {"KEY": "a-secret-of-another-server"}
        assert Path(result["backup"]).read_text() == before  # noqa: ASYNC240 - a small file
        (row,) = [row for row in (await page.read_state())["installs"] if row["client"] == "cursor"]
        assert row["installed"]


async def test_a_file_that_has_changed_since_it_was_shown_is_not_written(home: Path) -> None:
    file = home / ".cursor" / "mcp.json"
    async with serve_page(build_registry(make_entry("echo")), build_entry=build_entry) as server, server.read() as page:
        preview = (await page.post("installs/cursor", apply=False)).json()
        file.write_text('{"mcpServers": {}}')
        response = await page.post("installs/cursor", apply=True, digest=preview["digest"])
        assert (response.status_code, response.json()["error"]["code"]) == (409, "conflict")
        assert file.read_text() == '{"mcpServers": {}}'
        file.write_text("not JSON")
        response = await page.post("installs/cursor", apply=False)
        assert response.status_code == 409
        assert (await page.post("installs/nothing", apply=False)).status_code == 404


async def test_a_server_without_a_file_cannot_be_installed() -> None:
    async with serve_page(build_registry(make_entry("echo"))) as server, server.read() as page:
        state = await page.read_state()
        assert (state["can"]["install"], state["installs"]) == (False, [])
        assert (await page.post("installs/cursor", apply=False)).status_code == 403
