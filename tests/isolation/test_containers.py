"""Tools in containers of simulated engines (`kits/isolation`) behave as in other workers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT
from tests.kits.isolation.container_kit import HANGING, IMAGE, SimulatedEngine, run_engine
from tests.kits.isolation.isolation_kit import build_bridge
from tests.kits.questions.asking_kit import get_code
from tests.kits.questions.simulated_users import SimulatedUser
from tests.kits.sandbox.sandbox_kit import needs_bubblewrap
from tests.kits.survival.isolation_live import find_children, run_isolated_server
from tests.kits.survival.survival_kit import FIRST_WAY
from tests.kits.waiting import wait_until, wait_until_true

pytestmark = needs_bubblewrap
TOOLS = """
import asyncio, os, signal, subprocess, sys, time
from mcp_bridge import CallContext, tool

@tool
def environment() -> dict[str, str]:
    return dict(os.environ)

@tool
def place() -> list[str]:
    return [__file__, os.getcwd()]

@tool
def reads(path: str) -> str:
    return open(path).read()

@tool
def writes(path: str) -> str:
    with open(path, "w") as file:
        file.write("written")
    return "written"

@tool
def pid() -> int:
    return os.getpid()

@tool
async def shell(mark: str) -> None:
    program = [sys.executable, "-S", "-c", "import time; time.sleep(600)", f"child-{mark}"]
    await (await asyncio.create_subprocess_exec(*program, start_new_session=True)).wait()

@tool
async def asks(ctx: CallContext) -> str:
    return str(await ctx.ask("Which?", str))

@tool
async def relays(ctx: CallContext, name: str) -> str:
    result = await ctx.invoke(name)
    return str(result.output if result.success else result.code)

@tool
def version() -> str:
    return "before"
"""


@pytest.fixture(params=["docker", "podman"])
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SimulatedEngine]:
    with run_engine(tmp_path, request.param) as engine:
        monkeypatch.setenv("PATH", engine.env["PATH"])
        yield engine


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedEngine]:
    with run_engine(tmp_path) as engine:
        monkeypatch.setenv("PATH", engine.env["PATH"])
        yield engine


def build_contained(folder: Path, engine: SimulatedEngine, watch: bool = False, **isolation: Any) -> Any:
    """Build a bridge with tools in a container. The keys of `container` may be among those of `isolation`."""
    keys = ("image", "network", "read", "write", "user", "cpus")
    container = {key: isolation.pop(key) for key in keys if key in isolation}
    options = {"workers": 1, **isolation, "container": {"engine": engine.name, **container}}
    return build_bridge(folder, options, tools=TOOLS, watch=watch)


async def call(client: Any, tool: str, **arguments: Any) -> str:
    """Return the text of a result, or the code of its error."""
    result = await client.call_tool(tool, arguments)
    return get_code(result) or str(result.content[0].text)


async def test_a_container_has_only_named_variables_and_no_command_line_has_their_values(
    engine: SimulatedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "very-secret")
    monkeypatch.setenv("OTHER_KEY", "very-secret")
    async with connect(build_contained(tmp_path, engine, env=["API_KEY", "UNSET_KEY"])) as client:
        environment = json.loads(await call(client, "environment"))
    assert environment.pop("API_KEY") == "very-secret"
    assert environment.pop("HOME") == "/tmp"
    assert environment.keys() <= {"PATH", "PWD", "LC_CTYPE"}
    (command,) = engine.list_commands("run")
    assert "very-secret" not in str(command)
    assert "OTHER_KEY" not in command["env"]


async def test_a_container_is_named_and_restricted(engine: SimulatedEngine, tmp_path: Path) -> None:
    bridge = build_contained(tmp_path, engine, memory="512 MiB", cpus=1.5, network="tools", user="12:34")
    async with connect(bridge) as client:
        assert await call(client, "version") == "before"
        (name,) = engine.list_containers()
    (command,) = engine.list_commands("run")
    words = " ".join(command["arguments"])
    for option in (
        f"--name {name}", "--label mcp-bridge.source=offered", "--rm", "--init", "--pull never", "--read-only",
        "--cap-drop ALL", "--security-opt no-new-privileges", "--memory 536870912 --memory-swap 536870912",
        "--pids-limit 512", "--cpus 1.5", "--network tools", "--user 12:34", "--log-driver none",
    ):  # fmt: skip
        assert option in words
    assert ("--http-proxy=false" in words) is (engine.name == "podman")


async def test_a_container_sees_the_files_of_its_source_at_their_places(
    docker: SimulatedEngine, tmp_path: Path
) -> None:
    (tmp_path / "data, more: x").mkdir()
    (tmp_path / "data, more: x" / "file.txt").write_text("seen")
    (tmp_path / "output").mkdir()
    async with connect(build_contained(tmp_path, docker, read=["data, more: x"], write=["output"])) as client:
        file = tmp_path / "offered" / "own.py"
        assert json.loads(await call(client, "place")) == [str(file), str(tmp_path)]
        assert await call(client, "reads", path="data, more: x/file.txt") == "seen"
        assert await call(client, "reads", path=str(tmp_path / "bridge.json")) == "internal_error"
        for name in ("data, more: x/new.txt", "offered/new.py", "/etc/new"):
            assert await call(client, "writes", path=name) == "internal_error"
        assert await call(client, "writes", path="output/new.txt") == "written"
    assert (tmp_path / "output" / "new.txt").read_text() == "written"


async def test_a_cancelled_call_in_a_container_ends_its_programs_and_keeps_its_worker(
    docker: SimulatedEngine, tmp_path: Path
) -> None:
    mark = os.urandom(4).hex()
    async with connect(build_contained(tmp_path, docker)) as client:
        before = await call(client, "pid")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "shell", {"mark": mark})
            await wait_until_true(lambda: find_children(mark))
            tasks.cancel_scope.cancel()
        await wait_until_true(lambda: not find_children(mark))
        assert await call(client, "pid") == before


async def test_tools_in_containers_ask_questions_and_call_only_named_tools(
    docker: SimulatedEngine, tmp_path: Path
) -> None:
    bridge = build_contained(tmp_path, docker, invokes=["version"])
    async with connect(bridge, elicitation_callback=SimulatedUser({"value": "this one"})) as client:
        assert "this one" in await call(client, "asks")
        assert await call(client, "relays", name="version") == "before"
        assert await call(client, "relays", name="pid") == "denied"


async def test_a_container_notices_edited_files(docker: SimulatedEngine, tmp_path: Path) -> None:
    async with connect(build_contained(tmp_path, docker, watch=True)) as client:
        assert await call(client, "version") == "before"
        (tmp_path / "offered" / "own.py").write_text(TOOLS.replace('"before"', '"after"'))
        with anyio.fail_after(TIMEOUT):
            # The file is polled.
            while await call(client, "version") != "after":  # noqa: ASYNC110
                await anyio.sleep(0.05)


CRASHES = {
    "os._exit": "ended its process with exit code 7",
    "segfault": "SIGSEGV",
    "SIGKILL": "needed more than 512 MiB",
}
"""The ways to end a process, and words of the error. An engine reports exit code 137 after an end by lack of memory."""


def run_contained_server(folder: Path, engine: SimulatedEngine, **more: Any) -> Any:
    isolation = {"workers": 2, "memory": "512 MiB", "container": {"engine": engine.name, "read": ["."]}}
    return run_isolated_server(FIRST_WAY, folder, isolation, env=engine.env, **more)


def test_a_container_that_ends_or_hangs_fails_only_one_call(engine: SimulatedEngine, tmp_path: Path) -> None:
    limits = {"tools": {"wreck_async": {"timeout": "1s"}}}
    with run_contained_server(tmp_path, engine, limits=limits) as server, server.keep_call_in_flight():
        for ending, words in CRASHES.items():
            result = server.get_result("wreck", kind=ending)
            assert get_code(result) == "tool_crashed", (ending, result)
            assert words in result["content"][0]["text"]
            assert server.get_text("pid")
        for ending in ("the GIL", "a stop of its group"):
            hung = set(engine.list_containers())
            assert get_code(server.get_result("wreck_async", kind=ending)) == "timeout"
            assert server.get_text("pid")
            wait_until(lambda before=hung: not before & set(engine.list_containers()))
    wait_until(lambda: not engine.list_containers())


@pytest.mark.parametrize("how", ["end of input", "SIGTERM", "SIGKILL"])
def test_no_container_remains_when_the_bridge_ends(how: str, docker: SimulatedEngine, tmp_path: Path) -> None:
    with run_contained_server(tmp_path, docker, tools=HANGING, limits={"drain": "0.3s"}) as server:
        for mark in ("first", "second"):
            server.send_call("hangs", mark=mark)
            server.wait_for_stderr(f"begun {mark}")
        assert len(docker.list_containers()) == 2
        if how == "end of input":
            server.close_input()
        else:
            server.signal(getattr(signal, how))
        server.wait()
        wait_until(lambda: not docker.list_containers())


def test_a_container_ends_if_its_client_is_killed_while_a_tool_hangs(docker: SimulatedEngine, tmp_path: Path) -> None:
    with run_contained_server(tmp_path, docker, tools=HANGING) as server:
        waiting = server.send_call("hangs", mark="alone")
        server.wait_for_stderr("begun alone")
        (name,) = docker.list_containers()
        for process in psutil.Process(server.pid).children(recursive=True):
            if "engine_client.py" in str(process.cmdline()):
                # With its supervisor, nothing is left that could remove the container.
                os.killpg(os.getpgid(process.pid), signal.SIGKILL)
                break
        assert get_code(waiting.result(TIMEOUT)["result"]) == "tool_crashed"
        wait_until(lambda: name not in docker.list_containers())


async def start_in_vain(bridge: Any) -> None:
    """Start a bridge whose source has failed, or has no tool yet."""
    try:
        async with connect(bridge) as client:
            assert not (await client.list_tools()).tools
    except* SourceError:
        pass


STARTS: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "image": (
        "docker",
        {},
        {"image": "other:1"},
        "docker has no image other:1, and the server never pulls",
    ),
    "image of a registry": ("podman", {}, {"image": "example.org/a:1"}, "Pull it with `podman pull example.org/a:1`"),
    "Python": ("docker", {"missing_programs": ["python"]}, {}, f"the image {IMAGE} has no program `python`"),
    "Python of podman": ("podman", {"missing_programs": ["python"]}, {}, f"the image {IMAGE} has no program `python`"),
    "network": ("docker", {}, {"network": "other"}, "docker could not start a container"),
    "file": ("podman", {}, {"read": ["missing"]}, "missing: no such file or directory"),
    "service": ("docker", {"is_running": False}, {}, "Is the docker daemon running?"),
    "limits": ("docker", {"docker": {"MemoryLimit": False}}, {}, "docker cannot limit memory"),
    "limits without control groups": ("docker", {"docker": {"CgroupDriver": "none"}}, {}, "cannot limit memory"),
    "limits of podman": ("podman", {"podman": {"cgroupControllers": ["pids"]}}, {}, "podman cannot limit memory"),
    "machine": ("podman", {"podman": {"serviceIsRemote": True}}, {}, "runs on another machine"),
}


@pytest.mark.parametrize("case", STARTS)
async def test_a_source_reports_why_its_container_cannot_start(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name, facts, container, words = STARTS[case]
    with run_engine(tmp_path, name) as engine:
        info = dict(engine.facts[name]) if name == "docker" else {"host": dict(engine.facts[name]["host"])}
        (info if name == "docker" else info["host"]).update(facts.pop(name, {}))
        engine.change(**facts, **{name: info})
        monkeypatch.setenv("PATH", engine.env["PATH"])
        await start_in_vain(build_contained(tmp_path, engine, **container))
    assert words in caplog.text


async def test_a_remote_engine_is_rejected(
    docker: SimulatedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://user@example.org")
    await start_in_vain(build_contained(tmp_path, docker))
    assert "runs on another machine (ssh://user@example.org)" in caplog.text
    assert not docker.list_commands("run")
