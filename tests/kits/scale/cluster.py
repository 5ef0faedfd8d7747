"""Servers and workers as real processes with a shared Redis, and a client for each of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

import httpx2

from mcp_bridge._contracts.tasks import TASKS
from tests.client.server_process import URL, find_server_pid, parse_response
from tests.kits.constants import HTTP_HEADERS, STATELESS, TIMEOUT, make_envelope
from tests.kits.waiting import wait_until

Json = dict[str, Any]
CAPABILITIES: Json = {"extensions": {TASKS: {}}, "elicitation": {"form": {}}}
FINAL = ("completed", "failed", "cancelled")


class Node:
    """A process of mcp-bridge. `stderr` is all its output on stderr."""

    def __init__(self, folder: Path, *words: str) -> None:
        command = [sys.executable, "-m", "mcp_bridge", *words]
        env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
        self.process = subprocess.Popen(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self.stderr = ""
        self._has_news = threading.Condition()
        threading.Thread(target=self._read_errors, daemon=True).start()

    def wait_for_stderr(self, text: str) -> None:
        """Wait until stderr has this text."""
        with self._has_news:
            has_text = self._has_news.wait_for(lambda: text in self.stderr, TIMEOUT)
        assert has_text, f"it never wrote {text!r}, but: {self.stderr[-2000:]}"

    def kill(self) -> None:
        """End all its processes as `kill -9` does."""
        os.kill(find_server_pid(self.process.pid), signal.SIGKILL)
        self.process.wait(TIMEOUT)

    def stop(self) -> int:
        """Ask it to end with SIGTERM, and return its exit code."""
        self.process.terminate()
        return self.process.wait(TIMEOUT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                with self._has_news:
                    self.stderr += line.decode(errors="replace")
                    self._has_news.notify_all()


class Server(Node):
    """A server over HTTP and a client of it, in 2026-07-28."""

    def __init__(self, folder: Path, *words: str) -> None:
        super().__init__(folder, *(words or ("serve", "--http", "127.0.0.1:0", "--reload")))
        self.wait_for_stderr("/mcp (")
        self.url = URL.findall(self.stderr)[0]
        self.http = httpx2.Client(base_url=self.url, timeout=TIMEOUT, limits=httpx2.Limits(max_connections=None))

    def request(self, method: str, name: str, /, **params: Any) -> Json:
        """Send a request; return the whole response."""
        meta = make_envelope(CAPABILITIES)
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        headers = {**HTTP_HEADERS, "MCP-Protocol-Version": STATELESS, "Mcp-Method": method, "Mcp-Name": name}
        return parse_response(self.http.post("/mcp", content=json.dumps(message).encode(), headers=headers))

    def call(self, name: str, /, **arguments: Any) -> Json:
        """Call a tool; return the result."""
        answer = self.request("tools/call", name, name=name, arguments=arguments)
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    def create(self, name: str, /, **arguments: Any) -> str:
        """Call a tool that creates a task, and return the task's id."""
        result = self.call(name, **arguments)
        assert result["resultType"] == "task", result
        return str(result["taskId"])

    def fetch(self, task: str, *statuses: str) -> Json:
        """Wait until the task has one of these statuses, by default a final one, and return the task."""

        def look() -> Json | None:
            answer = self.request("tasks/get", task, taskId=task)
            assert "result" in answer, answer
            response: Json = answer["result"]
            return response if response["status"] in (statuses or FINAL) else None

        response: Json = wait_until(look)
        return response

    def close(self) -> None:
        super().close()
        self.http.close()


class Cluster:
    """The server and worker processes of one settings file, until the block ends. Tasks need a Redis."""

    def __init__(self, folder: Path, redis: str, tools: str, **settings: Any) -> None:
        self.folder = folder
        self._nodes: list[Node] = []
        (folder / "tools.py").write_text(tools)
        content = {"sources": [{"type": "python", "path": "tools.py"}], **settings}
        if redis:
            content["state"] = {"store": redis, **settings.get("state", {})}
            content["tasks"] = {"after": 0, "lease": 3, **settings.get("tasks", {})}
        (folder / "mcp-bridge.json").write_text(json.dumps(content))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self._nodes:
            node.close()

    def start_server(self) -> Server:
        """Start a server, and return when it accepts requests."""
        server = Server(self.folder)
        self._nodes.append(server)
        return server

    def start_worker(self, *options: str) -> Node:
        """Start a worker, and return when its sources have started."""
        worker = Node(self.folder, "worker", *options)
        self._nodes.append(worker)
        worker.wait_for_stderr("Running up to")
        return worker
