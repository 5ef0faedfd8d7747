"""The container engine of this machine: finds docker or podman, and checks that it can run containers here.

Sources: the references of `docker run`, `docker info` and `docker context inspect`, podman-run(1) and podman-info(1).
"""

# Type checkers for other systems read this file, too.
# mypy: disable-error-code="unreachable"

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import anyio

from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._runtime import process_group

PROGRAMS = ("docker", "podman")
"""The programs of engines, in the order in which `auto` looks for them."""
HINT = "Install docker or podman, or remove container from the settings"
_START_HINT = "Start the service of {name}, allow this user to use it, or remove container from the settings"
_TIMEOUT = 30.0
"""Seconds for one command that asks the engine."""
_CLIENT_VARIABLES = (
    "CONTAINERS_CONF", "CONTAINERS_REGISTRIES_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINER_CONNECTION",
    "CONTAINER_HOST", "CONTAINER_SSHKEY", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_API_VERSION", "DOCKER_CERT_PATH",
    "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_HOST", "DOCKER_TLS_VERIFY", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
)  # fmt: skip
"""The environment variables with which an engine finds its service, settings and images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A container engine that can run containers on this machine.

    Attributes:
        program: The path of its program.
        version: Its name and version, as its program prints them.
        is_podman: Whether it is podman. The program `docker` may be podman, too.
        is_rootless: Whether it runs without the rights of root.
        has_selinux: Whether SELinux confines its containers.
        socket: The path of the socket that controls the engine.
    """

    program: str
    version: str
    is_podman: bool
    is_rootless: bool
    has_selinux: bool
    socket: str


def find_program(name: str) -> str:
    """Return the path of `docker` or `podman`, or of the first one that is installed for `auto`. Raises ConfigError."""
    if sys.platform == "win32":
        raise ConfigError("tools cannot run in containers on Windows", hint="Run the server in WSL")
    for program in PROGRAMS if name == "auto" else (name,):
        path = shutil.which(program)
        if path is not None:
            return path
    missing = "neither docker nor podman is" if name == "auto" else f"{name} is not"
    raise ConfigError(f"{missing} installed", hint=HINT)


def build_environment() -> dict[str, str]:
    """Return the environment of the engine's program: it names the service, and has no secrets of the bridge."""
    return process_group.build_environment(*_CLIENT_VARIABLES)


async def probe(program: str, image: str) -> Engine:
    """Check an engine, and return it. Raises SourceError if it cannot run containers of the image here."""
    version, _, _ = (await _read_output(program, "--version")).partition(",")
    is_podman = "podman" in version.lower()
    socket = ""
    if not is_podman:
        endpoint = await _read_output(program, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
        if not endpoint.startswith("unix://"):
            raise _make_remote_error("docker", f" ({endpoint})")
        socket = endpoint.removeprefix("unix://")
    try:
        info = json.loads(await _read_output(program, "info", "--format", "{{json .}}"))
        if is_podman:
            engine = _read_podman(program, version, info)
        else:
            engine = _read_docker(program, version, info, socket)
    except (KeyError, TypeError, ValueError) as error:
        raise SourceError(f"{program} info has returned data of an unknown form: {error!r}") from error
    await _check_image(engine, image)
    return engine


def explain_missing_image(program: str, image: str) -> str:
    """Return the problem of an image that is not on this machine, and how users can get the image."""
    name = os.path.basename(program)
    hint = f"Build it with `{name} build --tag {image} FOLDER`"
    # A name without a registry would be looked up in public ones, where others could own it.
    if "/" in image:
        hint = f"Pull it with `{name} pull {image}`, or build it"
    return f"{name} has no image {image}, and the server never pulls images. {hint}"


async def _check_image(engine: Engine, image: str) -> None:
    code, _, errors = await _run(engine.program, "image", "inspect", "--format", "{{.Id}}", image)
    if code:
        if is_missing_image(errors):
            raise SourceError(explain_missing_image(engine.program, image))
        raise SourceError(f"{os.path.basename(engine.program)} cannot read the image {image}: {errors}")


def is_missing_image(errors: str) -> bool:
    """Whether the errors of an engine mean that an image is not on this machine."""
    return any(text in errors.lower() for text in ("no such image", "image not known", "unable to find image"))


def _read_docker(program: str, version: str, info: dict[str, Any], socket: str) -> Engine:
    # Rootless docker without cgroups reports limits, but ignores them (moby issue 42151).
    if not info["MemoryLimit"] or not info["PidsLimit"] or info["CgroupDriver"] == "none":
        raise _make_limit_error("docker")
    options = {option.partition(",")[0] for option in info["SecurityOptions"] or ()}
    return Engine(
        program=program,
        version=version,
        is_podman=False,
        is_rootless="name=rootless" in options,
        has_selinux="name=selinux" in options,
        socket=socket,
    )


def _read_podman(program: str, version: str, info: dict[str, Any]) -> Engine:
    host = info["host"]
    if host["serviceIsRemote"]:
        raise _make_remote_error("podman", "")
    if not {"memory", "pids"} <= set(host["cgroupControllers"]):
        raise _make_limit_error("podman")
    return Engine(
        program=program,
        version=version,
        is_podman=True,
        is_rootless=bool(host["security"]["rootless"]),
        has_selinux=bool(host["security"]["selinuxEnabled"]),
        socket=str(host["remoteSocket"]["path"]).removeprefix("unix://"),
    )


def _make_remote_error(name: str, where: str) -> SourceError:
    return SourceError(
        f"the service of {name} runs on another machine{where}, where the files of the source do not exist. Use an "
        "engine of this machine"
    )


def _make_limit_error(name: str) -> SourceError:
    return SourceError(
        f"{name} cannot limit memory and processes here, because it has no control groups. Delegate the controllers "
        "`memory` and `pids` to it"
    )


async def _read_output(program: str, *words: str) -> str:
    """Return the output of a command of the engine. Raises SourceError with its errors if it fails."""
    code, output, errors = await _run(program, *words)
    if code:
        name, reason = os.path.basename(program), " ".join(errors.split()) or f"exit code {code}"
        raise SourceError(f"`{name} {words[0]}` has failed ({reason}). {_START_HINT.format(name=name)}")
    return output


async def _run(program: str, *words: str) -> tuple[int, str, str]:
    """Return the exit code, the output and the errors of a command of the engine. Raises SourceError."""
    name = os.path.basename(program)
    try:
        with anyio.fail_after(_TIMEOUT):
            process = await anyio.run_process(
                [program, *words], check=False, stdin=subprocess.DEVNULL, env=build_environment()
            )
    except TimeoutError:
        hint = _START_HINT.format(name=name)
        raise SourceError(f"{name} did not respond within {_TIMEOUT:g} seconds. {hint}") from None
    except OSError as error:
        raise SourceError(f"{name} cannot be run: {error}") from error
    errors = process.stderr.decode(errors="replace").strip()
    return process.returncode, process.stdout.decode(errors="replace").strip(), errors
