"""Builds the command that runs a program in a container (ContainerOptions), and explains why one did not start."""

# Type checkers for other systems read this file, too.
# mypy: disable-error-code="attr-defined"

from __future__ import annotations

import csv
import io
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_bridge._contracts.errors import SourceError
from mcp_bridge._runtime.container.engine import Engine, explain_missing_image, is_missing_image

MAX_PROCESSES = 512
"""The maximum number of processes and threads in a container."""
_PROXY_VARIABLES = (
    "ALL_PROXY", "FTP_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY",
    "all_proxy", "ftp_proxy", "https_proxy", "http_proxy", "no_proxy",
)  # fmt: skip
"""The variables to which docker gives the values of `proxies` in the user's config.json (docker/cli, configfile)."""
_SHARED_MEMORY_SIZE = 64 << 20
"""The number of bytes of /dev/shm, the default of docker and podman."""
_NO_PROGRAM = ("executable file not found", "failed to exec pid1: no such file", "no such file or directory")
"""What runc, crun, and the init programs catatonit and tini print about a program that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerOptions:
    """A container for a program, and what it can access besides the files of its image.

    Attributes:
        program: The path of the engine's program.
        image: The name of the image.
        network: Whether it has the default network of the engine, or the name of its network.
        files: The readable files of its program or source.
        read: Further readable paths.
        write: Writable paths.
        user: The user in the container. By default, a user with the rights of this process for the mounted files.
        cpus: The number of CPUs that it can use.
    """

    program: str
    image: str
    network: bool | str = False
    files: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    user: str | None = None
    cpus: float | None = None


def make_name() -> str:
    """Return a new name for a container."""
    return f"mcp-bridge-{secrets.token_hex(8)}"


def build_run_command(
    engine: Engine,
    options: ContainerOptions,
    words: Sequence[str],
    *,
    name: str,
    label: str,
    directory: str,
    memory: int,
    env: Iterable[str] = (),
) -> list[str]:
    """Return the command that runs a program in a new container, with its standard streams.

    Args:
        engine: The engine of this machine.
        options: What the container can access.
        words: The program and its arguments.
        name: The name of the container, with which it can be removed.
        label: The value of the label `mcp-bridge.source`.
        directory: The working directory, if it is visible in the container.
        memory: The maximum number of bytes of memory of all its processes, and of the files in memory.
        env: The names of environment variables that it takes from the environment of the command.
    """
    command = [engine.program, "run", "--rm", "--interactive", "--init", "--pull", "never"]
    # The engine must not log the messages of a worker. Health checks of the image are for its usual program.
    command += ["--log-driver", "none", "--no-healthcheck", "--stop-timeout", "0"]
    command += ["--name", name, "--label", f"mcp-bridge.source={label}"]
    command += ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    # With SELinux, programs could read a mounted file only after a permanent change of its label.
    if engine.has_selinux:
        command += ["--security-opt", "label=disable"]
    if options.network is not True:
        command += ["--network", options.network or "none"]
    command += ["--pids-limit", str(MAX_PROCESSES), "--memory", str(memory), "--memory-swap", str(memory)]
    if options.cpus is not None:
        command += ["--cpus", f"{options.cpus:g}"]
    command += ["--user", options.user or _choose_user(engine)]
    if engine.is_podman:
        command += ["--http-proxy=false", "--image-volume=ignore", "--read-only-tmpfs=false"]
        if engine.is_rootless:
            command += ["--userns", "keep-id"]
    mounts = list_mounts(options, directory)
    sizes = {"/tmp": max(memory // 2, 4096)}  # noqa: S108 - private, and empty
    # With --read-only-tmpfs=false, later versions of podman make /dev/shm read-only, which multiprocessing writes to.
    if engine.is_podman:
        sizes["/dev/shm"] = _SHARED_MEMORY_SIZE  # noqa: S108
    for path, size in sizes.items():
        if path not in mounts:
            command += ["--tmpfs", f"{path}:size={size}"]
    for path, is_writable in mounts.items():
        command += ["--mount", format_mount(path, is_writable=is_writable)]
    command += ["--workdir", directory if _is_visible(directory, mounts) else "/"]
    command += ["--env", "HOME=/tmp"]
    # A variable that docker's own environment lacks gets no value from config.json or the image either.
    variables = list(env)
    if not engine.is_podman:
        variables += _PROXY_VARIABLES
    for variable in dict.fromkeys(variables):
        command += ["--env", variable]
    return [*command, "--entrypoint", words[0], options.image, *words[1:]]


def check_mounts(engine: Engine, options: ContainerOptions, directory: str) -> None:
    """Check that the program cannot change or use its mounts to leave the container. Raises SourceError."""
    mounts = list_mounts(options, directory)
    for path in mounts:
        format_mount(path, is_writable=True)
        if engine.socket and Path(os.path.realpath(engine.socket)).is_relative_to(os.path.realpath(path)):
            raise SourceError(f"{path} contains the socket that controls all containers ({engine.socket})")
        # A program could replace such a path by a link, and the next container would get the target of the link.
        for folder in options.write:
            if path != folder and Path(path).is_relative_to(folder):
                raise SourceError(f"{path} is in the writable folder {folder}, so the tools could replace it by a link")


def list_mounts(options: ContainerOptions, directory: str) -> Mapping[str, bool]:
    """Return the paths to mount, parents first, and whether each is writable."""
    # Files in a writable folder are visible anyway.
    mounts = {path: False for path in options.files if not _is_below_any(path, options.write)}
    # The folder of the settings stays read-only in a larger writable folder.
    if _is_below_any(directory, (path for path in options.write if path != directory)):
        mounts[directory] = False
    mounts |= dict.fromkeys(options.read, False)
    mounts |= dict.fromkeys(options.write, True)
    return dict(sorted(mounts.items()))


def format_mount(path: str, *, is_writable: bool) -> str:
    """Return the value of `--mount` that shows a path at the same place in the container.

    Engines read it as a line of CSV. Raises SourceError for a path with a control character, which could end the line.
    """
    if any(ord(character) < 32 or ord(character) == 127 for character in path):
        raise SourceError(f"{path!r} cannot be used in a container, because it has a control character")
    fields = ["type=bind", f"src={path}", f"dst={path}"]
    if not is_writable:
        fields.append("readonly")
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()


def explain_failed_start(options: ContainerOptions, program: str, code: int | None, lines: Sequence[str]) -> str:
    """Return why the program of a container did not start, or an empty text if it did.

    Args:
        options: The options of the container.
        program: The program in the container.
        code: The exit code of the command: 125 is an error of the engine, 126 a program that cannot be executed, and
            127 one that does not exist.
        lines: The last lines that the command has printed to stderr.
    """
    name, text = os.path.basename(options.program), "\n".join(lines)
    reason = next(_find_errors(lines), f"exit code {code}")
    if is_missing_image(text):
        return explain_missing_image(options.program, options.image)
    if code == 127 or (code in (1, 126) and any(words in reason.lower() for words in _NO_PROGRAM)):
        return f"the image {options.image} has no program `{program}`: {reason}"
    if code in (125, 126):
        return f"{name} could not start a container of the image {options.image}: {reason}"
    return ""


def _find_errors(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines with errors of the engine, and of the init program in the container."""
    for line in lines:
        if line.startswith(("docker: ", "Error: ", "ERROR ", "[FATAL ")):
            yield line.removeprefix("docker: ").removeprefix("Error: ")


def _choose_user(engine: Engine) -> str:
    """Return the user in the container who owns the files of this process."""
    # Root in a container of rootless docker is the user who runs docker.
    if engine.is_rootless and not engine.is_podman:
        return "0:0"
    return f"{os.getuid()}:{os.getgid()}"


def _is_visible(directory: str, mounts: Iterable[str]) -> bool:
    """Whether a directory exists in the container. Engines create the parents of mounts."""
    return any(Path(directory).is_relative_to(path) or Path(path).is_relative_to(directory) for path in mounts)


def _is_below_any(path: str, folders: Iterable[str]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)
