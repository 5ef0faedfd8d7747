"""For a server that rejects a version and names others, one of them is used."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.kits.upstream.everything_kit import ERAS, connect_to
from tests.kits.upstream.upstream_kit import Json

pytestmark = pytest.mark.anyio
SERVER = """
import json, os, sys
from pathlib import Path

KEY = "io.modelcontextprotocol/protocolVersion"
versions = Path(sys.argv[1])
rejected_once = Path(sys.argv[1] + ".rejected")
for line in sys.stdin:
    request = json.loads(line)
    method, params = request["method"], request.get("params") or {}
    if "id" not in request:
        continue
    known = json.loads(versions.read_text())
    asked = (params.get("_meta") or {}).get(KEY) or params.get("protocolVersion")
    is_rejected = asked is not None and asked not in known
    if method == "server/discover" and not is_rejected and not rejected_once.exists():
        rejected_once.touch()
        is_rejected = True
    if is_rejected:
        error = {"code": -32022, "message": "Unsupported protocol version", "data": {"supported": known}}
        response = {"error": error}
    elif method == "initialize":
        info = {"name": "picky", "version": "1"}
        response = {"result": {"protocolVersion": known[0], "capabilities": {"tools": {}}, "serverInfo": info}}
    elif method == "server/discover":
        response = {"result": {"supportedVersions": known, "capabilities": {"tools": {}}}}
    elif method == "tools/list":
        response = {"result": {"tools": [{"name": "name_version", "inputSchema": {"type": "object"}}]}}
    else:
        response = {"result": {"content": [{"type": "text", "text": asked or known[0]}]}}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **response}), flush=True)
"""


def write_server(folder: Path, version: str) -> Json:
    """Write the entry of a server with one version. Tests can change the version while it runs."""
    (folder / "versions.json").write_text(json.dumps([version]))
    return {"command": sys.executable, "args": ["-c", SERVER, str(folder / "versions.json")]}


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2026-07-28"])
async def test_a_rejected_version_is_replaced_by_the_one_that_the_server_names(
    version: str, mode: str, tmp_path: Path
) -> None:
    async with connect_to(write_server(tmp_path, version), tmp_path, mode) as client:
        result = await client.call_tool("name_version", {})
    assert [block.text for block in result.content if block.type == "text"] == [version]


async def test_a_server_that_no_longer_speaks_the_version_is_connected_again(tmp_path: Path) -> None:
    async with connect_to(write_server(tmp_path, "2026-07-28"), tmp_path, "legacy") as client:
        await client.call_tool("name_version", {})
        (tmp_path / "versions.json").write_text('["2025-06-18"]')
        result = await client.call_tool("name_version", {})
    assert [block.text for block in result.content if block.type == "text"] == ["2025-06-18"]
