"""The audit trail at the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from tests.kits.http.http_hosting import build_registry, make_entry
from tests.kits.web.web_kit import serve_page

TOOLS = """
from mcp_bridge import tool


@tool
def add(n: int) -> int:
    return n + 1


@tool
def fail() -> None:
    raise RuntimeError
"""
TOKENS = {"alice": "token-of-alice", "bob": "token-of-bob"}


def load_settings(folder: Path) -> Any:
    (folder / "tools.py").write_text(TOOLS)
    sources = [{"type": "python", "path": "tools.py"}]
    file = folder / "bridge.json"
    file.write_text(json.dumps({"sources": sources, "policy": [{"audit": {"path": "trail.sqlite3"}}]}))
    return load(file, {})


async def test_recorded_calls_are_filtered_and_read_page_by_page(tmp_path: Path) -> None:
    settings = load_settings(tmp_path)
    async with serve_page(build_from_settings(settings), settings=settings) as server, server.read() as page:
        assert (await page.read_state())["audit"] is True
        assert (await page.http.get("/page/audit")).json() == {"rows": [], "next": None}
        for n in range(101):
            await page.call_tool("add", n=n)
        await page.call_tool("fail")
        errors = (await page.http.get("/page/audit", params={"outcome": "error"})).json()
        first = (await page.http.get("/page/audit", params={"tool": "a*"})).json()
        second = (await page.http.get("/page/audit", params={"tool": "a*", "before": first["next"]})).json()
    assert [(row["name"], row["code"]) for row in errors["rows"]] == [("fail", "internal_error")]
    assert (len(first["rows"]), len(second["rows"]), second["next"]) == (100, 1, None)
    assert first["rows"][0]["seq"] > first["rows"][-1]["seq"] > second["rows"][0]["seq"]


async def test_a_principal_reads_its_own_records(tmp_path: Path) -> None:
    settings = load_settings(tmp_path)
    bridge = build_from_settings(settings)
    async with (
        serve_page(bridge, settings=settings, principals=TOKENS) as server,
        server.read("token-of-alice") as alice,
        server.read("token-of-bob") as bob,
        server.read() as owner,
    ):
        await alice.call_tool("add", n=1)
        await bob.call_tool("add", n=2)
        rows = (await alice.http.get("/page/audit")).json()["rows"]
        rows_of_bob = (await alice.http.get("/page/audit", params={"principal": "bob"})).json()["rows"]
        everything = (await owner.http.get("/page/audit")).json()["rows"]
    assert [row["principal"] for row in rows] == ["alice"]
    assert rows_of_bob == []
    assert [row["principal"] for row in everything] == ["bob", "alice"]


async def test_a_mistake_in_a_request_is_explained(tmp_path: Path) -> None:
    settings = load_settings(tmp_path)
    async with serve_page(build_from_settings(settings), settings=settings) as server, server.read() as page:
        unknown = await page.http.get("/page/audit", params={"name": "add"})
        cursor = await page.http.get("/page/audit", params={"before": "last"})
    assert (unknown.status_code, cursor.status_code) == (400, 400)
    assert unknown.json()["error"]["message"].startswith("Unknown parameter 'name'. Known parameters: tool,")
    assert "before" in cursor.json()["error"]["message"]


async def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    settings = load_settings(tmp_path)
    async with serve_page(build_from_settings(settings), settings=settings) as server, server.read() as page:
        (tmp_path / "trail.sqlite3").write_bytes(b"no database" * 100)
        response = await page.http.get("/page/audit")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "unavailable")


async def test_a_server_without_the_policy_has_no_audit_trail() -> None:
    async with serve_page(build_registry(make_entry("echo"))) as server, server.read() as page:
        assert (await page.read_state())["audit"] is False
        response = await page.http.get("/page/audit")
    assert response.status_code == 404
    assert "Add the policy `audit`" in response.json()["error"]["message"]
