"""Tasks in Redis with real servers and workers: they survive the sudden end of each of these processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

from tests.client.server_process import find_server_pid
from tests.kits.constants import TIMEOUT
from tests.kits.redis_server import RedisServer, redis_process, redis_server  # noqa: F401
from tests.kits.scale.cluster import Cluster
from tests.kits.waiting import wait_until

TOOLS = """
import asyncio, os, signal
from pathlib import Path
from mcp_bridge import CallContext, tool
from mcp_bridge.tasks import ToolTasks

@tool
async def work(ctx: CallContext, name: str = "") -> int:
    "Work until there is a file `release` with the name; the process that has done it."
    with open("begun" + name, "a") as log:
        print(os.getpid(), ctx.idempotency_key, file=log)
    while not Path("release" + name).exists():
        await asyncio.sleep(0.01)
    return os.getpid()

@tool
async def greet(ctx: CallContext) -> str:
    "Ask for a name."
    form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return "Hello, " + (await ctx.ask("Who?", form, key="name")).content["name"]

@tool
async def crash() -> None:
    "End the process."
    os.kill(os.getpid(), signal.SIGKILL)

@tool(tasks=ToolTasks(retries=1, backoff=5))
async def fail_once(ctx: CallContext) -> list[int]:
    "Fail in the first attempt; the second one and its process."
    if ctx.attempt == 1:
        raise ConnectionError
    return [ctx.attempt, os.getpid()]

@tool
async def reveal() -> str:
    "Return the secret."
    return os.environ["SECRET"]
"""


def list_runs(folder: Path, name: str = "") -> list[list[str]]:
    """Return the process and the idempotency key of each run."""
    file = folder / f"begun{name}"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def wait_for_runs(folder: Path, count: int = 1) -> list[list[str]]:
    """Wait for this many runs, and return them."""
    wait_until(lambda: len(list_runs(folder)) >= count)
    return list_runs(folder)


def test_a_worker_runs_what_one_server_creates_and_another_one_returns(tmp_path: Path, redis_server: str) -> None:  # noqa: F811
    with Cluster(tmp_path, redis_server, TOOLS, tasks={"workers_only": True}) as cluster:
        first, second = cluster.start_server(), cluster.start_server()
        task = first.create("work")
        assert second.fetch(task, "working")["status"] == "working"
        worker = cluster.start_worker()
        wait_for_runs(tmp_path)
        (tmp_path / "release").touch()
        result = second.fetch(task)["result"]
        assert result["content"][0]["text"] == str(find_server_pid(worker.process.pid))
        assert result == first.fetch(task)["result"]


def test_questions_of_a_task_are_answered_at_any_server(tmp_path: Path, redis_server: str) -> None:  # noqa: F811
    with Cluster(tmp_path, redis_server, TOOLS) as cluster:
        first, second = cluster.start_server(), cluster.start_server()
        task = first.create("greet")
        (key,) = second.fetch(task, "input_required")["inputRequests"]
        answers = {key: {"action": "accept", "content": {"name": "Ada"}}}
        assert "result" in second.request("tasks/update", task, taskId=task, inputResponses=answers)
        assert first.fetch(task)["result"]["content"][0]["text"] == "Hello, Ada"


def test_a_task_is_cancelled_at_any_server(tmp_path: Path, redis_server: str) -> None:  # noqa: F811
    with Cluster(tmp_path, redis_server, TOOLS) as cluster:
        first, second = cluster.start_server(), cluster.start_server()
        task = first.create("work")
        wait_for_runs(tmp_path)
        for server in (second, first):
            assert "result" in server.request("tasks/cancel", task, taskId=task)
        assert first.fetch(task)["status"] == second.fetch(task)["status"] == "cancelled"


@pytest.mark.parametrize("ends", ["server", "worker"])
def test_a_task_runs_again_when_its_process_is_killed_and_reports_it(
    ends: str,
    tmp_path: Path,
    redis_server: str,  # noqa: F811
) -> None:
    with Cluster(tmp_path, redis_server, TOOLS) as cluster:
        first = cluster.start_server()
        task = first.create("work")
        wait_for_runs(tmp_path)
        second = cluster.start_server() if ends == "server" else cluster.start_worker()
        first.kill()
        runs = wait_for_runs(tmp_path, 2)
        (tmp_path / "release").touch()
        result = cluster.start_server().fetch(task)["result"]
        assert result["content"][0]["text"] == str(find_server_pid(second.process.pid))
        assert result["_meta"]["mcp-bridge/runs"] == 2
        (first_pid, key), (two, second_key) = runs
        assert first_pid != two
        assert key == second_key
        second.wait_for_stderr("runs again")


def test_tasks_survive_that_redis_is_killed(tmp_path: Path, redis_process: RedisServer) -> None:  # noqa: F811
    with Cluster(tmp_path, redis_process.url, TOOLS, tasks={"workers_only": True}) as cluster:
        server, worker = cluster.start_server(), cluster.start_worker()
        task = server.create("work")
        wait_for_runs(tmp_path)
        redis_process.kill()
        error = server.request("tasks/get", task, taskId=task)["error"]
        assert error == {"code": -32603, "message": "The server cannot reach its tasks now. Retry later."}
        assert server.request("tools/call", "work", name="work", arguments={})["error"] == error
        (tmp_path / "release").touch()
        worker.wait_for_stderr("is unavailable")
        redis_process.start()
        wait_until(lambda: "result" in server.request("tasks/get", task, taskId=task))
        assert server.fetch(task)["status"] == "completed"
        assert server.fetch(server.create("work"))["status"] == "completed"
        for node in (server, worker):
            node.wait_for_stderr("available again")
            assert "Traceback" not in node.stderr


def test_after_an_outage_of_redis_free_slots_take_tasks_while_others_run_on(
    tmp_path: Path,
    redis_process: RedisServer,  # noqa: F811
) -> None:
    # The lease is longer than the outages.
    options = {"workers_only": True, "concurrency": 2, "lease": 60}
    with Cluster(tmp_path, redis_process.url, TOOLS, tasks=options) as cluster:
        server, worker = cluster.start_server(), cluster.start_worker()
        first = server.create("work")
        wait_for_runs(tmp_path)
        # The second outage also affects a worker added after the first one.
        for name in ("2", "3"):
            redis_process.kill()
            worker.wait_for_stderr("is unavailable")
            redis_process.start()
            wait_until(lambda: "result" in server.request("tasks/get", first, taskId=first))
            task = server.create("work", name=name)
            wait_until(lambda name=name: list_runs(tmp_path, name))
            assert server.fetch(first, "working")["status"] == "working"
            (tmp_path / f"release{name}").touch()
            assert server.fetch(task)["status"] == "completed"
            worker.stderr = ""
        (tmp_path / "release").touch()
        assert "mcp-bridge/runs" not in server.fetch(first)["result"].get("_meta", {})
        assert server.fetch(server.create("work"))["status"] == "completed"


def test_another_process_makes_the_next_attempt_if_the_one_that_failed_has_ended(
    tmp_path: Path,
    redis_server: str,  # noqa: F811
) -> None:
    with Cluster(tmp_path, redis_server, TOOLS, tasks={"workers_only": True}) as cluster:
        server, worker = cluster.start_server(), cluster.start_worker()
        task = server.create("fail_once")
        wait_until(lambda: "statusMessage" in server.fetch(task, "working"))
        worker.wait_for_stderr("is retried in 5 s")
        worker.kill()
        second_worker = cluster.start_worker()
        result = server.fetch(task)["result"]
        assert result["structuredContent"] == [2, find_server_pid(second_worker.process.pid)]
        assert result["_meta"]["mcp-bridge/runs"] == 2


def test_a_task_fails_that_ends_each_process_that_runs_it(tmp_path: Path, redis_server: str) -> None:  # noqa: F811
    options = {"workers_only": True}
    with Cluster(tmp_path, redis_server, TOOLS, tasks=options) as cluster:
        server, workers = cluster.start_server(), [cluster.start_worker() for _ in range(4)]
        task = server.fetch(server.create("crash"))
        assert task["status"] == "failed"
        assert "started 3 times" in task["error"]["message"]
        wait_until(lambda: sum(worker.process.poll() is None for worker in workers) == 1)


def test_a_worker_that_is_stopped_lets_its_tasks_end(tmp_path: Path, redis_server: str) -> None:  # noqa: F811
    with Cluster(tmp_path, redis_server, TOOLS, tasks={"workers_only": True}, limits={"drain": "1m"}) as cluster:
        server, worker = cluster.start_server(), cluster.start_worker("--concurrency", "1")
        task, waiting = server.create("work"), server.create("work", name="2")
        wait_for_runs(tmp_path)
        worker.process.send_signal(signal.SIGTERM)
        second_worker = cluster.start_worker()
        wait_until(lambda: list_runs(tmp_path, "2"))
        second_worker.kill()
        second_worker = cluster.start_worker()
        # The lease of the tasks that ran at the kill has ended.
        wait_until(lambda: len(list_runs(tmp_path, "2")) == 2)
        (tmp_path / "release").touch()
        assert worker.process.wait(TIMEOUT) == 0
        assert "mcp-bridge/runs" not in server.fetch(task)["result"].get("_meta", {})
        (tmp_path / "release2").touch()
        assert server.fetch(waiting)["result"]["content"][0]["text"] == str(find_server_pid(second_worker.process.pid))


def test_tasks_that_do_not_end_with_their_worker_run_elsewhere(tmp_path: Path, redis_server: str) -> None:  # noqa: F811
    with Cluster(tmp_path, redis_server, TOOLS, tasks={"workers_only": True}, limits={"drain": 0.1}) as cluster:
        server, worker = cluster.start_server(), cluster.start_worker()
        task = server.create("work")
        wait_for_runs(tmp_path)
        # A task may start more often than it may crash if its workers are stopped.
        for count in (2, 3, 4):
            assert worker.stop() == 0
            worker = cluster.start_worker()
            wait_for_runs(tmp_path, count)
        (tmp_path / "release").touch()
        assert server.fetch(task)["result"]["_meta"]["mcp-bridge/runs"] == 4


def test_results_in_redis_have_no_secrets(
    tmp_path: Path,
    redis_process: RedisServer,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = "do-not-store-" + os.urandom(8).hex()
    monkeypatch.setenv("SECRET", secret)
    with Cluster(tmp_path, redis_process.url, TOOLS, http={"token_env": "SECRET"}) as cluster:
        server = cluster.start_server()
        server.http.headers["Authorization"] = f"Bearer {secret}"
        assert server.fetch(server.create("reveal"))["status"] == "completed"
    stored = [file.read_bytes() for file in redis_process.folder.rglob("*") if file.is_file()]
    assert any(b"completed" in data for data in stored)
    assert not any(secret.encode() in data for data in stored)


@pytest.mark.parametrize("tasks", [None, {}])
def test_a_worker_needs_tasks_in_redis(tasks: object, tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    settings = {"sources": [{"type": "python", "path": "tools.py"}], **({"tasks": tasks} if tasks is not None else {})}
    (tmp_path / "mcp-bridge.json").write_text(json.dumps(settings))
    outcome = subprocess.run(
        [sys.executable, "-m", "mcp_bridge", "worker"], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert outcome.returncode == 2
    assert outcome.stderr.startswith(
        "mcp-bridge: mcp-bridge.json: state.store: there are no tasks in Redis. Write `tasks: {}`"
    )


def test_tasks_need_no_more_of_redis_than_the_user_in_the_documentation_may_do(
    tmp_path: Path,
    redis_process: RedisServer,  # noqa: F811
) -> None:
    documentation = (Path(__file__).parents[3] / "docs" / "tasks.md").read_text()
    (rights,) = re.findall(r"^ACL SETUSER (bridge .*)$", documentation, re.MULTILINE)
    with Redis.from_url(redis_process.url) as redis:
        redis.execute_command("ACL", "SETUSER", *rights.split())
        redis.execute_command("ACL", "SETUSER", "default", "off")
    url = redis_process.url.replace("://", "://bridge:long-password@")
    with Cluster(tmp_path, url, TOOLS, tasks={"workers_only": True}) as cluster:
        server = cluster.start_server()
        cluster.start_worker()
        (tmp_path / "release").touch()
        assert server.fetch(server.create("work"))["status"] == "completed"
        task = server.create("fail_once")
        server.request("tasks/cancel", task, taskId=task)
        assert server.fetch(task)["status"] == "cancelled"
