"""Servers with an audit trail, and its records, read with the sqlite3 module alone."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from tests.kits.constants import ENVELOPE

TOOLS = Path(__file__).with_name("audited_tools.py")


def write_settings(folder: Path, *policies: str, name: str = "bridge.yaml", **audit: Any) -> Path:
    """Write settings with the audit trail `trail.sqlite3`, and with further policies in YAML."""
    lines = [f"- audit: {json.dumps({'path': 'trail.sqlite3', **audit})}", *(f"- {policy}" for policy in policies)]
    path = folder / name
    path.write_text(f"sources: [{{type: python, path: {TOOLS}}}]\npolicy:\n" + "\n".join(lines), encoding="utf-8")
    return path


def build_audited_bridge(folder: Path, *policies: str, **audit: Any) -> Bridge:
    """Build a bridge with an audit trail and further policies."""
    return build_from_settings(load(write_settings(folder, *policies, **audit), {}))


def read_records(path: Path) -> list[dict[str, Any]]:
    """Check the hash chain of an audit trail, and return all its records in order."""
    previous, records = "0" * 64, []
    with contextlib.closing(sqlite3.connect(path)) as database:
        for text, digest in database.execute("SELECT record, hash FROM records ORDER BY seq"):
            if not records and json.loads(text).get("kind") != "anchor" and digest != _hash(previous, text):
                # The predecessors of the first record were removed.
                previous = ""
            assert previous == "" or digest == _hash(previous, text)
            previous = digest
            records.append(json.loads(text))
    return records


def wait_for_record(path: Path, **members: Any) -> dict[str, Any]:
    """Wait for the first record with these members, and return it."""
    while True:
        # The file may not have tables yet.
        with contextlib.suppress(sqlite3.OperationalError):
            for record in read_records(path):
                if members.items() <= record.items():
                    return record
        time.sleep(0.01)


def _hash(previous: str, text: str) -> str:
    return hashlib.sha256((previous + text).encode()).hexdigest()


class AuditedServer:
    """A server process on stdio, and a client that does not wait for results."""

    def __init__(self, settings: Path) -> None:
        command = [sys.executable, "-m", "mcp_bridge", "serve", str(settings)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, bufsize=1, **pipes)
        self._errors: list[str] = []
        threading.Thread(target=self._read_errors, daemon=True).start()

    def send_calls(self, ids: Sequence[str], tool: str = "add", **arguments: Any) -> None:
        """Send calls; they are dropped once the server is dead."""
        tool_arguments = {"a": 1, "b": 2} if tool == "add" else arguments
        params = {"name": tool, "arguments": tool_arguments, "_meta": ENVELOPE}
        with contextlib.suppress(BrokenPipeError):
            for call_id in ids:
                message = {"jsonrpc": "2.0", "id": call_id, "method": "tools/call", "params": params}
                self.process.stdin.write(f"{json.dumps(message)}\n")
            self.process.stdin.flush()

    def read_responses(self) -> Iterator[dict[str, Any]]:
        """Yield the responses until the server ends."""
        for line in self.process.stdout:
            # The last line of a killed server may be incomplete.
            with contextlib.suppress(ValueError):
                yield json.loads(line)

    def call(self, number: str, tool: str = "add", **arguments: Any) -> dict[str, Any]:
        """Call a tool and return the result."""
        self.send_calls([number], tool, **arguments)
        return next(response for response in self.read_responses() if response.get("id") == number)["result"]

    def kill(self, trail: Path) -> None:
        """Kill the process with the tools. `process` is its supervisor."""
        os.kill(self.find_pid(trail), signal.SIGKILL)
        self.process.wait(60)

    def find_pid(self, trail: Path) -> int:
        """Return the process of the last record."""
        return next(record["pid"] for record in reversed(read_records(trail)) if "pid" in record)

    def end(self) -> str:
        """Close the input of the server, as its client would at the end, and return its log."""
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()
        return "".join(self._errors)

    def _read_errors(self) -> None:
        self._errors += self.process.stderr
        self.process.stderr.close()


@contextlib.contextmanager
def run_server(settings: Path) -> Iterator[AuditedServer]:
    """Yield a server process, and end it after the block."""
    server = AuditedServer(settings)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
        for stream in (server.process.stdin, server.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()
