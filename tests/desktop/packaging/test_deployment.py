"""The files of the deployment example are valid, and its servers can be stopped one by one without losing a call."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
import yaml

from tests.kits.constants import TIMEOUT
from tests.kits.haproxy import CONFIG, run_haproxy
from tests.kits.redis_server import redis_process, redis_server  # noqa: F401
from tests.kits.scale.cluster import Cluster, Node, Server
from tests.kits.waiting import wait_until

EXAMPLE = Path(__file__).parents[3] / "config" / "deploy"
VARIABLES = {"MCP_BRIDGE_TOKEN": "token-" + "t" * 32, "MCP_BRIDGE_KEY": "key-" + "k" * 32}
TOOLS = """
import asyncio
from pathlib import Path
from mcp_bridge import tool

@tool
async def echo(number: int) -> int:
    "Return the number after a moment."
    await asyncio.sleep(0.02)
    return number

@tool
async def wait() -> str:
    "Wait for a file."
    Path("begun").touch()
    while not Path("release").exists():
        await asyncio.sleep(0.01)
    return "released"
"""


def run(*words: str) -> str:
    """Run a Python module with these words; its output."""
    result = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=TIMEOUT)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_compose_file_is_valid() -> None:
    run("check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(EXAMPLE / "compose.yaml"))


def test_the_kubernetes_manifests_are_valid(tmp_path: Path) -> None:
    for number, manifest in enumerate(yaml.safe_load_all((EXAMPLE / "kubernetes.yaml").read_text())):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(manifest))
        run("kubernetes_validate", "--strict", "--kubernetes-version", "1.33", str(file))


def test_compose_and_kubernetes_use_the_commands_and_variables_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())["services"]
    manifests = list(yaml.safe_load_all((EXAMPLE / "kubernetes.yaml").read_text()))
    pods = [item["spec"]["template"]["spec"]["containers"][0] for item in manifests if item["kind"] == "Deployment"]
    assert [services[name]["command"] for name in ("server", "worker")] == [pod["args"] for pod in pods]
    for name, value in VARIABLES.items():
        assert all(name in services[service]["environment"] for service in ("server", "worker"))
        assert all(name in {item["name"] for item in pod["env"]} for pod in pods)
        monkeypatch.setenv(name, value)
    for file in list_copied_files():
        shutil.copy(EXAMPLE / file, tmp_path)
    assert "2 tools" in run("mcp_bridge", "validate", str(tmp_path / "mcp-bridge.yaml"))


def list_copied_files() -> list[str]:
    """Return the files copied into the image."""
    (line,) = [line for line in (EXAMPLE / "Dockerfile").read_text().splitlines() if line.startswith("COPY ")]
    return line.split()[1:-1]


def test_a_server_and_a_worker_with_the_files_of_the_image_run_a_task(
    tmp_path: Path,
    redis_server: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    services = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())["services"]
    for name, value in {**VARIABLES, "REDIS_URL": redis_server}.items():
        monkeypatch.setenv(name, value)
    for file in list_copied_files():
        text = (EXAMPLE / file).read_text()
        if file == "mcp-bridge.yaml":
            changes = {"port: 8808": "port: 0", "host: 0.0.0.0": "host: 127.0.0.1", "after: 5s": "after: 0"}
            for old, new in changes.items():
                assert old in text
                text = text.replace(old, new)
        (tmp_path / file).write_text(text)
    with closing(Server(tmp_path, *services["server"]["command"])) as server:
        assert server.http.get("/health").status_code == 200
        server.http.headers["Authorization"] = f"Bearer {VARIABLES['MCP_BRIDGE_TOKEN']}"
        with closing(Node(tmp_path, *services["worker"]["command"])):
            task = server.fetch(server.create("add", first=1, second=2))
            assert task["result"]["structuredContent"] == 3


def test_a_server_that_is_stopped_is_not_ready_while_its_calls_end(tmp_path: Path) -> None:
    with Cluster(tmp_path, "", TOOLS) as cluster, ThreadPoolExecutor() as pool:
        server = cluster.start_server()
        assert server.http.get("/health").status_code == 200
        calling = pool.submit(server.call, "wait")
        while not (tmp_path / "begun").exists():
            assert not calling.done(), calling.result()
        server.process.terminate()
        wait_until(lambda: server.http.get("/health").status_code == 503)
        assert not calling.done()
        (tmp_path / "release").touch()
        assert calling.result(TIMEOUT)["content"][0]["text"] == "released"
        assert server.process.wait(TIMEOUT) == 0


def test_servers_behind_the_proxy_are_stopped_without_a_lost_call(tmp_path: Path) -> None:
    # The proxy asks ten times a second, and acts on the third equal answer.
    delay = {"shutdown_delay": 5}
    with Cluster(tmp_path, "", TOOLS, http=delay) as cluster, ThreadPoolExecutor() as pool:
        servers = [cluster.start_server() for _ in range(3)]
        with run_haproxy([server.url for server in servers], tmp_path) as url:
            # This server is not stopped. Its client now sends all calls to the proxy, which chooses a server for each.
            last_server = servers[-1]
            last_server.http = httpx2.Client(base_url=url, timeout=TIMEOUT)
            counts = [0] * 6
            is_over = threading.Event()

            def call_all_the_time(number: int) -> None:
                while not is_over.wait(0.01):
                    assert last_server.call("echo", number=number)["structuredContent"] == number
                    counts[number] += 1

            calling = [pool.submit(call_all_the_time, number) for number in range(len(counts))]
            for server in servers[:-1]:
                earlier_counts = list(counts)
                while not all(count > then for count, then in zip(counts, earlier_counts, strict=True)):
                    assert not any(item.done() for item in calling), [item.result(0) for item in calling if item.done()]
                assert server.stop() == 0
            assert not any(item.done() for item in calling)
            is_over.set()
            for item in calling:
                item.result(TIMEOUT)


def test_the_proxy_accepts_its_file() -> None:
    if not shutil.which("haproxy"):
        pytest.skip("haproxy is not installed (Debian: apt-get install haproxy)")
    subprocess.run(["haproxy", "-c", "-f", str(CONFIG)], check=True, timeout=TIMEOUT)
