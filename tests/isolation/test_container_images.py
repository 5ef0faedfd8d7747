"""What an image and the settings of an engine add to the containers of simulated engines (`kits/isolation`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge.testing import connect
from tests.kits.isolation.container_kit import SimulatedEngine, run_engine
from tests.kits.isolation.isolation_kit import build_bridge
from tests.kits.questions.asking_kit import get_code
from tests.kits.sandbox.sandbox_kit import needs_bubblewrap
from tests.kits.waiting import wait_until_true

pytestmark = needs_bubblewrap
TOOLS = """
import multiprocessing, os, signal
from mcp_bridge import tool

@tool
def environment() -> dict[str, str]:
    return dict(os.environ)

@tool
def can_write(folder: str) -> bool:
    try:
        open(os.path.join(folder, "new.txt"), "w").close()
    except OSError:
        return False
    return True

@tool
def locks() -> bool:
    return multiprocessing.Lock().acquire()

@tool
def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)

@tool
def hangs() -> None:
    import re
    re.match(r"(a+)+$", "a" * 60 + "!")
"""


@pytest.fixture(params=["docker", "podman"])
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SimulatedEngine]:
    with run_engine(tmp_path, request.param) as engine:
        monkeypatch.setenv("PATH", engine.env["PATH"])
        yield engine


def build_contained(folder: Path, engine: SimulatedEngine, env: tuple[str, ...] = (), **more: Any) -> Any:
    isolation = {"workers": 1, "container": engine.name, "env": env}
    return build_bridge(folder, isolation, tools=TOOLS, **more)


def set_docker_proxies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write all proxies that the settings of the docker client can have."""
    keys = ("httpProxy", "httpsProxy", "ftpProxy", "noProxy", "allProxy")
    proxies = {"default": dict.fromkeys(keys, "http://user:very-secret@proxy.example")}
    (folder / "config.json").write_text(json.dumps({"proxies": proxies}))
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))


async def read_environment(client: Any) -> dict[str, str]:
    return json.loads((await client.call_tool("environment", {})).content[0].text)


async def test_the_proxies_in_the_settings_of_an_engine_do_not_reach_a_container(
    engine: SimulatedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_docker_proxies(tmp_path, monkeypatch)
    monkeypatch.setenv("HTTP_PROXY", "http://user:very-secret@proxy.example")
    async with connect(build_contained(tmp_path, engine)) as client:
        environment = await read_environment(client)
    assert not [name for name in environment if name.lower().endswith("_proxy")]
    assert "very-secret" not in str(environment)


async def test_a_container_has_the_proxies_that_the_settings_name(
    engine: SimulatedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_docker_proxies(tmp_path, monkeypatch)
    monkeypatch.setenv("HTTPS_PROXY", "http://own.example")
    monkeypatch.delenv("ALL_PROXY", raising=False)
    async with connect(build_contained(tmp_path, engine, env=("HTTPS_PROXY", "ALL_PROXY"))) as client:
        environment = await read_environment(client)
    proxies = {name: value for name, value in environment.items() if name.lower().endswith("_proxy")}
    assert proxies == {"HTTPS_PROXY": "http://own.example"}


async def test_a_container_has_the_variables_of_its_image_except_proxies_with_docker(
    engine: SimulatedEngine, tmp_path: Path
) -> None:
    engine.change(image_variables={"MODEL": "small", "no_proxy": "internal.example"})
    async with connect(build_contained(tmp_path, engine)) as client:
        environment = await read_environment(client)
    assert environment["MODEL"] == "small"
    assert ("no_proxy" in environment) is (engine.name == "podman")


async def test_a_container_can_write_only_to_memory_and_with_docker_to_the_volumes_of_its_image(
    engine: SimulatedEngine, tmp_path: Path
) -> None:
    engine.change(volumes=["/data"])
    writable = []
    async with connect(build_contained(tmp_path, engine)) as client:
        assert (await client.call_tool("locks", {})).content[0].text == "true"
        for folder in ("/tmp", "/dev/shm", "/run", "/var/tmp", "/data", "/etc", str(tmp_path / "offered")):
            result = await client.call_tool("can_write", {"folder": folder})
            if result.content[0].text == "true":
                writable.append(folder)
    expected = ["/tmp", "/dev/shm"]
    if engine.name == "docker":
        expected.append("/data")
    assert writable == expected


@pytest.mark.parametrize("tool", ["dies", "hangs"])
async def test_no_volume_of_an_image_remains_after_a_worker(tool: str, engine: SimulatedEngine, tmp_path: Path) -> None:
    engine.change(volumes=["/data"])
    limits = {"tools": {"hangs": {"timeout": "0.5s"}}}
    async with connect(build_contained(tmp_path, engine, limits=limits)) as client:
        (name,) = engine.list_containers()
        assert engine.list_volumes() == ([name] if engine.name == "docker" else [])
        assert get_code(await client.call_tool(tool, {})) in ("tool_crashed", "timeout")
        await wait_until_true(lambda: name not in engine.list_containers())
        assert name not in engine.list_volumes()
    await wait_until_true(lambda: not engine.list_containers())
    assert not engine.list_volumes()
