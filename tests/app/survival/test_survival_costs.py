"""No request costs the server more than a hundred times its cost for the sender."""

from __future__ import annotations

import copy
import itertools
import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.client.server_process import StdioServerProcess, Way
from tests.kits.constants import ENVELOPE, HANDSHAKE, STATELESS, TIMEOUT
from tests.kits.paths import KITS, ROOT
from tests.kits.survival.survival_kit import run_server

TOOLS = KITS / "survival" / "limits_tools.py"
SCHEMAS = ROOT / "mcp_bridge" / "_server" / "schemas"
FACTOR = 100
NUMBERS = itertools.count()
SIZE = 1024 * 1024
"""Bytes of a parameter: a quarter of the longest message, and more than any limit of a single parameter."""
REF = {"type": "ref/prompt", "name": "paint"}
VALID: dict[str, dict[str, Any]] = {
    "completion/complete": {"ref": REF, "argument": {"name": "color", "value": "r"}},
    "initialize": {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
    "logging/setLevel": {"level": "info"},
    "notifications/cancelled": {"requestId": "none"},
    "notifications/progress": {"progressToken": "none", "progress": 1},
    "prompts/get": {"name": "paint", "arguments": {"color": "red", "count": "1"}},
    "resources/read": {"uri": "survival://none"},
    "resources/subscribe": {"uri": "survival://none"},
    "resources/unsubscribe": {"uri": "survival://none"},
    "subscriptions/listen": {"notifications": {"toolsListChanged": True}},
    "tools/call": {"name": "takes", "arguments": {"data": 1}},
}
ERAS = [pytest.param(Way("stdio", stateless=era == STATELESS), era, id=era) for era in (HANDSHAKE, STATELESS)]


def encode(value: Any) -> tuple[str, float]:
    """Return a value as JSON, and the seconds of CPU to write and read it."""
    began = time.process_time()
    text = json.dumps(value, separators=(",", ":"))
    json.loads(text)
    return text, time.process_time() - began


FILLERS = {
    "a long text": encode("x" * SIZE),
    # The ligature is sent as an escape, and each is decomposed into 18 characters.
    "a text of ligatures": encode("\ufdfa" * (SIZE // 6)),
    "many lists": encode([[]] * (SIZE // 3)),
    "many members": encode({f"{number:x}": 0 for number in range(SIZE // 10)}),
}


@pytest.mark.parametrize(("way", "era"), ERAS)
def test_no_parameter_of_any_method_makes_a_request_expensive(way: Way, era: str, tmp_path: Path) -> None:
    expensive = []
    with run_server(way, tmp_path, TOOLS) as server, server.keep_call_in_flight(timeout=10 * TIMEOUT):
        for method, path in iter_parameters(era):
            for filler in FILLERS:
                valid = {**VALID.get(method, {}), **({"_meta": ENVELOPE} if era == STATELESS else {})}
                cpu, memory = measure(server, method, fill(valid, path, filler), filler)
                if cpu > FACTOR or memory > FACTOR:
                    expensive.append((method, ".".join(path), filler, round(cpu), round(memory)))
    assert expensive == []


def iter_parameters(era: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the path of every parameter in the schemas, and of one more in each object.

    Those in `_meta` are the same for all methods, so one method represents all.
    """
    schemas = json.loads((SCHEMAS / f"{era}.json").read_text())
    for method, schema in schemas["params"].items():
        for path in sorted(set(iter_paths(schema, schemas["$defs"]))):
            if method == "tools/call" or path[0] != "_meta":
                yield method, path


def iter_paths(schema: dict[str, Any], definitions: dict[str, Any], depth: int = 0) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all parameters in a schema."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    for alternative in schema.get("anyOf", ()):
        yield from iter_paths(alternative, definitions, depth)
    type_name = schema.get("type", "")
    if depth > 3 or not ("properties" in schema or "object" in type_name):
        return
    for name, subschema in {**schema.get("properties", {}), "unknown": {}}.items():
        yield (name,)
        for path in iter_paths(subschema, definitions, depth + 1):
            yield (name, *path)


def fill(params: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Return the parameters with this value at the path."""
    new_params = copy.deepcopy(params)
    place = new_params
    for name in path[:-1]:
        if not isinstance(place.get(name), dict):
            place[name] = {}
        place = place[name]
    place[path[-1]] = value
    return new_params


def measure(server: StdioServerProcess, method: str, params: dict[str, Any], filler: str) -> tuple[float, float]:
    """Send a message; return how many times as much CPU and memory as its sender the server needed at most."""
    request = {"jsonrpc": "2.0", "id": f"cost {next(NUMBERS)}", "method": method, "params": params}
    if method.startswith("notifications/"):
        del request["id"]
    text, spent = FILLERS[filler]
    line = json.dumps(request, separators=(",", ":")).replace(json.dumps(filler), text).encode() + b"\n"
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")
    rss, cpu = server.rss, read_cpu(server)
    server.write(line)
    if "id" in request and method != "subscriptions/listen":
        server.expect_response(request["id"]).result(TIMEOUT)
    else:
        # The response arrives after everything that was sent before it.
        server.send_request("tools/list", {}).result(TIMEOUT)
    if method == "subscriptions/listen":
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request["id"]}})
    status = Path(f"/proc/{server.pid}/status").read_text()
    peak = int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024
    return (read_cpu(server) - cpu) / spent, (peak - rss) / len(line)


def read_cpu(server: StdioServerProcess) -> float:
    """Return the seconds of CPU used by the threads of the server."""
    nanoseconds = 0
    for file in Path(f"/proc/{server.pid}/task").glob("*/schedstat"):
        # The thread may have just ended.
        with suppress(FileNotFoundError, ProcessLookupError):
            nanoseconds += int(file.read_text().split()[0])
    return nanoseconds / 1e9
