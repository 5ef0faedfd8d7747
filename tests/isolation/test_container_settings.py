"""No value in the settings becomes an option of an engine, or lets a tool leave its container."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._runtime.container.command import ContainerOptions, build_run_command, check_mounts, format_mount
from mcp_bridge._runtime.container.engine import Engine
from mcp_bridge._settings import load
from tests.kits.constants import TIMEOUT
from tests.kits.isolation.container_kit import run_engine
from tests.kits.isolation.engine_options import EngineError, parse_run, read_mount

ATTACKS: dict[str, Any] = {
    "an option as the image": {"container": {"image": "--privileged"}},
    "an image with a space": {"container": {"image": "python:3.13 --privileged"}},
    "an image with a line break": {"container": {"image": "python:3.13\n--privileged"}},
    "no image": {"container": {"image": ""}},
    "an option as the network": {"container": {"network": "--privileged"}},
    "the network of a container": {"container": {"network": "container:other"}},
    "no network as a name": {"container": {"network": "none"}},
    "an option as the user": {"container": {"user": "--privileged"}},
    "a user with a line break": {"container": {"user": "1:1\n"}},
    "another program as the engine": {"container": {"engine": "/bin/sh"}},
    "a container that is empty": {"container": None},
    "a container that is a switch": {"container": True},
    "an unknown key": {"container": {"privileged": True}},
    "no CPU": {"container": {"cpus": 0}},
    "an endless number of CPUs": {"container": {"cpus": ".inf"}},
    "a variable with a value": {"env": ["KEY=value"]},
    "a variable with a wildcard": {"env": ["KEY*"]},
    "a variable with a line break": {"env": ["KEY\nOTHER"]},
    "an option as a variable": {"env": ["--privileged"]},
    "a sandbox and a container": {"sandbox": "bubblewrap", "container": "docker"},
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_invalid_container_is_an_error_of_the_settings(attack: str, tmp_path: Path) -> None:
    source = {"type": "python", "path": "tools.py", "isolation": {"container": {}, **ATTACKS[attack]}}
    (tmp_path / "bridge.json").write_text(json.dumps({"sources": [source]}))
    with pytest.raises(ConfigError, match="isolation"):
        load(tmp_path / "bridge.json", {})


@pytest.mark.parametrize("isolation", ["container", {"container": {}}, {"container": "docker"}])
def test_every_form_of_the_setting_is_a_container(isolation: Any, tmp_path: Path) -> None:
    source = {"type": "python", "path": "tools.py", "isolation": isolation}
    (tmp_path / "bridge.json").write_text(json.dumps({"sources": [source]}))
    (settings,) = load(tmp_path / "bridge.json", {}).sources
    assert settings.isolation is not None
    assert settings.isolation.container is not None
    assert settings.isolation.container.network is False


DOCKER = Engine(
    program="docker", version="", is_podman=False, is_rootless=False, has_selinux=False, socket="/var/run/docker.sock"
)
PODMAN = Engine(program="podman", version="", is_podman=True, is_rootless=True, has_selinux=True, socket="")


def build_run(engine: Engine, **options: Any) -> list[str]:
    """Return the command for a container with these options."""
    return build_run_command(
        engine,
        ContainerOptions(program=engine.program, image="example:1", **options),
        ["python", "-P"],
        name="mcp-bridge-1",
        label="tools, and=more\n",
        directory="/work",
        memory=2**30,
        env=["API_KEY"],
    )


def list_tools(folder: Path, search_path: str, container: str) -> subprocess.CompletedProcess[str]:
    """Run `mcp-bridge list` for a source in a container, with programs in this PATH."""
    (folder / "tools.py").write_text("")
    source = {"type": "python", "name": "safe", "path": "tools.py", "isolation": {"container": container}}
    (folder / "bridge.json").write_text(json.dumps({"sources": [source]}, indent=1))
    return subprocess.run(
        [sys.executable, "-m", "mcp_bridge", "list", "bridge.json"],
        cwd=folder,
        env={**os.environ, "PATH": search_path},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def test_an_engine_whose_service_does_not_run_is_reported_with_its_place_in_the_settings(tmp_path: Path) -> None:
    with run_engine(tmp_path, "docker") as engine:
        engine.change(is_running=False)
        result = list_tools(tmp_path, engine.env["PATH"], "docker")
    assert result.returncode == 1
    assert result.stderr.startswith(
        "mcp-bridge: bridge.json:8: sources[0].isolation.container: source 'safe': `docker info` has failed ("
    )
    assert "Start the service of docker, allow this user to use it, or remove container" in result.stderr


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_a_missing_engine_is_reported_with_its_place_in_the_settings(name: str, tmp_path: Path) -> None:
    result = list_tools(tmp_path, str(tmp_path), name)
    assert result.returncode == 2
    assert result.stderr == (
        f"mcp-bridge: bridge.json:8: sources[0].isolation.container: {name} is not installed. "
        "Install docker or podman, or remove container from the settings\n"
    )


PATHS = ["/a,readonly=false", "/a:/etc:rw", '/a"b', "/a b=c", "/a,src=/etc", "/-x", "/ä\udcff"]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_mounted_at_its_own_place_whatever_its_characters(path: str) -> None:
    order = parse_run("docker", build_run(DOCKER, files=(path,))[2:])
    assert order.list_mounts() == [{"type": "bind", "src": path, "dst": path, "readonly": ""}]


@pytest.mark.parametrize("path", ["/a\nb", "/a\rb", "/a\x00b"])
def test_a_path_with_a_control_character_is_rejected(path: str) -> None:
    with pytest.raises(SourceError, match="control character"):
        format_mount(path, is_writable=False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"read": ("/var/run",)}, "socket that controls all containers"),
        ({"read": ("/",)}, "socket that controls all containers"),
        ({"read": ("/data/own",), "write": ("/data",)}, "could replace it by a link"),
        ({"write": ("/data", "/data/own")}, "could replace it by a link"),
        ({"files": ("/data/settings/tools.py",), "write": ("/data",)}, "could replace it by a link"),
    ],
)
def test_mounts_that_would_open_the_container_are_rejected(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SourceError, match=words):
        check_mounts(DOCKER, ContainerOptions(program="docker", image="example:1", **options), "/data/settings")


def test_files_in_a_writable_folder_are_not_mounted_again() -> None:
    order = parse_run("docker", build_run(DOCKER, files=("/work/tools.py",), write=("/work",))[2:])
    assert order.list_mounts() == [{"type": "bind", "src": "/work", "dst": "/work"}]
    assert order.get("--workdir") == "/work"


def test_the_user_owns_the_mounted_files_in_every_kind_of_engine() -> None:
    own = f"{os.getuid()}:{os.getgid()}"
    rootless_docker = Engine(
        program="docker", version="", is_podman=False, is_rootless=True, has_selinux=False, socket=""
    )
    assert parse_run("docker", build_run(DOCKER)[2:]).get("--user") == own
    assert parse_run("docker", build_run(rootless_docker)[2:]).get("--user") == "0:0"
    podman = parse_run("podman", build_run(PODMAN)[2:])
    assert (podman.get("--user"), podman.get("--userns")) == (own, "keep-id")
    assert "label=disable" in podman.options["--security-opt"]


@pytest.mark.parametrize(
    "words",
    [["--privileged", "a"], ["--pull", "soon", "a"], ["--mount", "type=bind,src=a,dst=/a", "a"], ["--name"], ["A"], []],
)
def test_the_simulated_engine_rejects_what_engines_reject(words: list[str]) -> None:
    with pytest.raises(EngineError):
        parse_run("docker", words)
    with pytest.raises(EngineError):
        read_mount("type=volume,src=/a,dst=/a")


@pytest.mark.parametrize("engine", [DOCKER, PODMAN], ids=["docker", "podman"])
def test_the_real_program_accepts_the_command(engine: Engine, tmp_path: Path) -> None:
    if shutil.which(engine.program) is None:
        pytest.skip(f"{engine.program} is not installed")
    command = build_run(engine, files=(str(tmp_path),), network="tools", cpus=1.5, user="1:2")
    # Without a service there is no container. The program reports that only after it has accepted its arguments.
    missing = f"unix://{tmp_path}/missing.sock"
    env = {**os.environ, "DOCKER_HOST": missing, "CONTAINER_HOST": missing}
    command[1:1] = ["--remote"] if engine.is_podman else []
    result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert result.returncode == 125
    assert "onnect to" in result.stderr
