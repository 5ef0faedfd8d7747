"""A server with secrets in its settings and tools that leak them, and a search for secrets in its output."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from tests.client.server_process import ClientProfile, Way
from tests.kits.constants import HTTP_HEADERS, TIMEOUT
from tests.kits.survival.survival_kit import run_server

LEAKY = Path(__file__).with_name("leaky_tools.py")
ENV = {
    "API_KEY": 'sk-live/7d1f+"9a\\3z é=q0',
    "STATE_KEY": "a-key-of-32-bytes-that-seals-states-w5x2",
    "HTTP_TOKEN": "token-of-http-4f5e6d",
    "PIN_SECRET": "4815162342",
}
PARTS = ("sk-live", "7d1f", "9a\\", "3z é", "seals-states", "w5x2", "of-http", "4f5e6d", "4815162342")
"""Parts of the secrets that are in no other text, and that look the same in JSON, in URLs and in Python's repr."""
PLANTED = '''
from pydantic import BaseModel

from mcp_bridge.sources import Offer, Source


class Planted(Source):
    """A source with options that hold secrets, and nothing to offer."""

    class Options(BaseModel):
        headers: dict[str, str]
        pin: str

    async def run(self, publish):
        publish(Offer())
'''
SETTINGS: dict[str, Any] = {
    "title": "Leaky ${API_KEY}",
    "instructions": "The key is ${API_KEY}.",
    "http": {"token_env": "HTTP_TOKEN"},
    "state": {"keys": ["${STATE_KEY}"]},
    "limits": {"result": 1000},
    "sources": [
        {"type": "python", "path": "own_tools.py"},
        {"type": "planted:Planted", "headers": {"X-Key": "Bearer ${API_KEY}"}, "pin": "${PIN_SECRET}"},
    ],
}
ASKABLE = ClientProfile(capabilities={"elicitation": {"form": {}}}, token=ENV["HTTP_TOKEN"])
STAMPED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ ")
OTHERS = ("begun ", "Serving ")
"""The beginnings of lines on stderr that are no log records: the output of a tool, and the address of the server."""


@contextmanager
def run_leaking_server(way: Way, folder: Path, **settings: Any) -> Iterator[Any]:
    """Yield a server with secrets in its settings, tools that leak them, and a log file."""
    (folder / "planted.py").write_text(PLANTED)
    options = ("--log-file", "the.log", "--log-level", "debug")
    with run_server(way, folder, LEAKY, {**SETTINGS, **settings}, env=ENV, options=options, profile=ASKABLE) as server:
        yield server


def find_secrets(text: str) -> list[str]:
    """Return the parts of secrets in a text, including those in Base64."""
    secrets = [
        secret for secret in PARTS if secret in text or json.dumps(secret)[1:-1] in text or quote(secret) in text
    ]
    for word in re.findall(r"[A-Za-z0-9+/_-]{12,}", text):
        # The text before the secret may not be base64.
        for start in range(4):
            secret = word[start : len(word) - (len(word) - start) % 4]
            data = base64.urlsafe_b64decode(secret.replace("+", "-").replace("/", "_"))
            secrets += [f"{secret} (base64)" for secret in PARTS if secret.encode() in data]
    return secrets


def assert_no_secrets(server: Any) -> None:
    """Check that the output contains no secrets, and that every line of the log belongs to a record."""
    log = (server.folder / "the.log").read_text()
    assert not find_secrets(server.output.decode())
    assert not find_secrets(server.stderr)
    assert not find_secrets(log)
    for line in (*server.stderr.splitlines(), *log.splitlines()):
        assert STAMPED.match(line) or line.startswith(("  ", *OTHERS)), line
        assert line.isprintable(), line


class Sse:
    """A client of the legacy transport. `text` is everything received."""

    def __init__(self, server: Any) -> None:
        self.text = ""
        self._server = server
        self._more = threading.Condition()
        self._stream = server.http.stream("GET", "/sse", headers=HTTP_HEADERS)
        self._answer = self._stream.__enter__()
        threading.Thread(target=self._read_messages, daemon=True).start()
        self._post = re.search(r"data: (\S+)", self.until("session_id"))

    def send(self, message: Any) -> None:
        """Post a message."""
        assert self._post is not None
        assert self._server.http.post(self._post[1], json=message).status_code == 202

    def until(self, words: str) -> str:
        """Wait until the stream contains these words, and return its text."""
        with self._more:
            assert self._more.wait_for(
                lambda: words in self.text.replace('": ', '":') and self.text[-1] == "\n", TIMEOUT
            )
            return self.text

    def close(self) -> None:
        """Close the stream."""
        self._answer.close()

    def _read_messages(self) -> None:
        try:
            for text in self._answer.iter_text():
                with self._more:
                    self.text += text
                    self._more.notify_all()
        except httpx2.HTTPError:
            pass
