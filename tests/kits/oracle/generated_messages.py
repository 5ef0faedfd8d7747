"""Generated sequences of messages of both eras: valid ones, and the same with one or two changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.kits.constants import CLIENT_INFO, META_PREFIX
from tests.kits.data_changes import change_at, list_paths

Json = dict[str, Any]
CAPABILITIES: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": True}}
HANDSHAKE_VERSIONS = ["2025-11-25", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "1999-01-01"]
URIS = [
    "test://nothing", "TEST://text", "test://text#a", "test://text?a=b", "test://notes/", "test://notes/a%2Fb",
    "test://notes/%2e%2e", "test://notes/..", "test://notes/a.b", "test://notes/%", "test://notes/%zz", "test://notes/é",
    "test://notes/%C3%A9", "test://notes/%ff", "test://notes/a/b", "test://notes/a?b", "test://notes/a#b",
    "test://notes/%00", "test://notes/C:%5Cx", "test://notes/%2Fetc", "test://files", "test://files/", "test://files/a",
    "test://files//a", "test://files/a//b/", "test://files/a/../b", "test://files/%2e%2e/b", "test://files/a,b/c",
    "test://files/é/%20", "test://files/a%2F..%2Fb", "test://files//etc/passwd", "",
]  # fmt: skip
COMMON: list[tuple[str, Json]] = [
    ("tools/list", {}),
    ("tools/list", {"cursor": "YWZ0ZXI6YXNr"}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("prompts/list", {}),
    ("resources/read", {"uri": "test://text"}),
    ("resources/read", {"uri": "test://fails"}),
    ("resources/read", {"uri": "test://notes/ann"}),
    ("resources/read", {"uri": "test://files/a/b"}),
    *(("resources/read", {"uri": uri}) for uri in URIS),
    ("prompts/get", {"name": "greeting", "arguments": {"who": "Ada"}}),
    ("prompts/get", {"name": "plain"}),
    ("prompts/get", {"name": "fails"}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "greeting"},
                             "argument": {"name": "who", "value": "a"}, "context": {"arguments": {"tone": "kind"}}}),
    ("completion/complete", {"ref": {"type": "ref/resource", "uri": "test://notes/{name}"},
                             "argument": {"name": "name", "value": "an"}}),
    ("tools/call", {"name": "echo", "arguments": {"text": "hi"}}),
    ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2.5}}),
    ("tools/call", {"name": "count"}),
    ("tools/call", {"name": "with_space_b8b8f25a", "arguments": {"text": "hi"}}),
    *(("tools/call", {"name": name, "arguments": {}})
      for name in ("blocks", "report", "report", "refuse", "crash", "wait", "ask", "sample", "roots", "open_page",
                   "need_input", "change_tools", "touch", "zz_extra", "nothing")),
]  # fmt: skip
HANDSHAKE: list[tuple[str, Json]] = [
    ("ping", {}),
    ("initialize", {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "clientInfo": CLIENT_INFO}),
    ("logging/setLevel", {"level": "debug"}),
    ("resources/subscribe", {"uri": "test://text"}),
    ("resources/unsubscribe", {"uri": "test://text"}),
]
STATELESS: list[tuple[str, Json]] = [
    ("server/discover", {}),
    ("subscriptions/listen", {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["test://text"]}}),
    ("subscriptions/listen", {"notifications": {"promptsListChanged": True}}),
    ("tools/call", {"name": "roots", "arguments": {}, "requestState": "made up", "inputResponses": {}}),
]
NOTIFICATIONS: list[tuple[str, Json]] = [
    ("notifications/cancelled", {"requestId": "unknown", "reason": "no more"}),
    ("notifications/progress", {"progressToken": "unknown", "progress": 0.5}),
    ("notifications/roots/list_changed", {}),
    ("notifications/initialized", {}),
    ("notifications/unknown", {}),
]
ANSWERS: list[Json] = [
    {"id": "elicitation/create#1", "result": {"action": "accept", "content": {"name": "Ada"}}},
    {"id": "elicitation/create#2", "result": {"action": "decline"}},
    {"id": "sampling/createMessage#1", "result": {
        "role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "m"}},
    {"id": "roots/list#1", "result": {"roots": [{"uri": "file:///a"}]}},
    {"id": "roots/list#2", "error": {"code": -1, "message": "no"}},
    {"id": "unknown", "result": {}},
]  # fmt: skip
NAMES = [
    "id", "jsonrpc", "method", "params", "_meta", "name", "arguments", "uri", "cursor", "result", "error", "extra",
    "progressToken", "inputResponses", "requestState", "requestId", "level", "ID", "Name", "URI",
    f"{META_PREFIX}protocolVersion", f"{META_PREFIX}clientCapabilities", f"{META_PREFIX}clientInfo",
    f"{META_PREFIX}logLevel", "", "é", "x" * 200,
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2**53, 2**63, 2**64, 1.5, 1.0, -0.0, 1e308, "", "1", "x", "é😀", "\u0000", "true",
    [], {}, [None], [1], ["x"], {"": None}, {"a": {"b": []}}, "2.0", "echo", "test://text", "../etc", "2026-07-28",
    "2025-11-25", "2030-01-01", "debug", "ref/prompt", "tools/list", "ping", "initialize", "tools/call", "x" * 3000,
    "server/discover", "logging/setLevel", "notifications/initialized", "resources/subscribe", "rpc.x",
]  # fmt: skip
CHANGES = ["drop", "put", "put", "put", "rename", "wrap", "swap", "add", "add"]
SCRATCHES = [b"{", b"}", b",", b'"', b"\xff", b"NaN", b"\\ud800", b"\x00", b"[1]", b"1e999", b'"id":7,', b" "]


class MessageGenerator:
    """Generates the messages of a client of one era. It knows the ids of its requests, but sends nothing itself."""

    def __init__(self, random: Random, *, is_stateless: bool) -> None:
        self._random = random
        self.is_stateless = is_stateless
        self._last_id = 0
        self._ids: list[Any] = []

    def open(self) -> list[bytes]:
        """Return the first messages of a connection: valid ones, or sometimes none."""
        return [] if self._random.random() < 0.1 else self.begin()

    def begin(self) -> list[bytes]:
        """Return the valid first messages of a connection."""
        if self.is_stateless:
            return [_write(self._make_request("server/discover", {}))]
        version = self._random.choice(HANDSHAKE_VERSIONS)
        params = {"protocolVersion": version, "capabilities": CAPABILITIES, "clientInfo": CLIENT_INFO}
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        return [_write(self._make_request("initialize", params)), _write(initialized)]

    def generate(self) -> bytes:
        """Return one message. A third of them are valid."""
        random, message = self._random, self._make_message()
        for _ in range(random.choice([0, 1, 1, 1, 2, 2])):
            all_paths = list_paths(message)
            inner_paths = [path for path in all_paths if len(path) > 1]
            path = random.choice(inner_paths if inner_paths and random.random() < 0.8 else all_paths)
            message = change_at(message, path, random.choice(CHANGES), random.choice(NAMES), random.choice(VALUES))
        line = _write(message)
        if random.random() < 0.03:
            at = random.randrange(len(line))
            line = line[:at] + random.choice(SCRATCHES) + line[at + random.randrange(2) :]
        return line.replace(b"\n", b" ")

    def _make_message(self) -> Any:
        random, choice = self._random, self._random.random()
        if choice < 0.1:
            method, params = random.choice(NOTIFICATIONS)
            if method == "notifications/cancelled" and self._ids and random.random() < 0.7:
                number = random.choice(self._ids[-5:])
                params = {**params, "requestId": str(number) if random.random() < 0.1 else number}
            return {"jsonrpc": "2.0", "method": method, "params": params}
        if choice < 0.2:
            return {"jsonrpc": "2.0", **random.choice(ANSWERS)}
        same_era = STATELESS if self.is_stateless else HANDSHAKE
        other_era = HANDSHAKE if self.is_stateless else STATELESS
        method, params = random.choice(other_era if choice < 0.23 else same_era if choice < 0.4 else COMMON)
        return self._make_request(method, params)

    def _make_request(self, method: str, params: Json) -> Json:
        self._last_id += 1
        number: Any = self._last_id
        if self._random.random() < 0.1:
            number = f"id {number}"
        elif self._random.random() < 0.02 and self._ids:
            number = self._random.choice(self._ids)
        self._ids.append(number)
        meta: Json = {"progressToken": f"token {number}"} if self._random.random() < 0.5 else {}
        if self.is_stateless:
            meta |= {f"{META_PREFIX}protocolVersion": "2026-07-28", f"{META_PREFIX}clientInfo": CLIENT_INFO}
            meta |= {f"{META_PREFIX}clientCapabilities": CAPABILITIES if self._random.random() < 0.7 else {}}
            if self._random.random() < 0.5:
                meta[f"{META_PREFIX}logLevel"] = self._random.choice(["debug", "warning"])
        params = {**params, "_meta": meta} if meta else params
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def make_generators(seed: int, count: int) -> Iterator[MessageGenerator]:
    """Yield generators for the two eras in turn. The same seed generates the same messages."""
    for number in range(count):
        yield MessageGenerator(Random(f"{seed} {number}"), is_stateless=bool(number % 2))


def _write(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode()
