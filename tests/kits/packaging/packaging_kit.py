"""For tests of packaging: a project to package, environments to install packages in, and calls of packaged servers."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from typer.main import get_command

from mcp_bridge._cli.app import app
from mcp_bridge._cli.exits import report_errors
from tests.kits.cli.cli_running import CommandResult
from tests.kits.constants import TIMEOUT
from tests.kits.node.needed import print_uncaptured
from tests.kits.node.toolchain import lock_file
from tests.kits.paths import ROOT

NO_NETWORK = (
    *("No matching distribution", "Temporary failure in name resolution", "NewConnectionError"),
    *("error sending request", "dns error", "Could not connect"),
)
UV_VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}
"""The variables of uv for options of pip: uv does not read pip's settings."""
BUILD_TIMEOUT = 300.0
"""Seconds for a process that installs packages."""

BundleTool = Callable[[Sequence[str | Path], Path], str]
"""Runs the official tool for bundles with arguments in a folder, and returns its output. It fails if the tool fails."""

SETTINGS = """
name: My Shelf
title: The shelf
version: 1.2.3
instructions: What is on the shelf.
sources:
  - type: python
    path: tools.py
    prefix: ${PREFIX:-our}
state:
  keys: "${SHELF_KEY}"
"""
TOOLS = '''
import json
from pathlib import Path

import words
from deep.down import ENDING
from mcp_bridge import tool

DATA = json.loads((Path(__file__).parent / "data" / "stock.json").read_text())


@tool
def look(item: str) -> str:
    """Look for something on the shelf."""
    return words.describe(item, DATA.get(item, 0)) + ENDING
'''
KEY = "a-key-of-the-tests-that-is-long-enough-to-seal-with"


def get_clean_environment(**added: str) -> dict[str, str]:
    """Return this process' environment without variables that would affect another environment."""
    variables = {key: value for key, value in os.environ.items() if "COV" not in key and key != "PYTHONPATH"}
    return {**variables, **added}


def run_in_new_process(folder: Path, *args: str | Path, env: Mapping[str, str] | None = None) -> CommandResult:
    """Run the command in a folder."""
    process = subprocess.run(
        [sys.executable, "-m", "mcp_bridge", *map(str, args)],
        cwd=folder,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
    )
    return CommandResult(process.returncode, process.stdout, process.stderr)


@cache
def command() -> Any:
    """Return the command line. Building it takes longer than most of its commands, so do it once."""
    return get_command(app)


def run_in_process(folder: Path, *args: str | Path) -> CommandResult:
    """Run a command in a folder, in this process. It must not start tools or configure a log."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            with report_errors():
                command()(list(map(str, args)))
        except SystemExit as end:
            return CommandResult(int(end.code or 0), out.getvalue(), err.getvalue())
    raise AssertionError("it did not end")


def write_shelf_project(folder: Path) -> Path:
    """Create a project with a module, a package and data next to its tools, and with private files."""
    files = {
        "mcp-bridge.yaml": SETTINGS,
        "tools.py": TOOLS,
        "words.py": "def describe(item, amount):\n    return f'{amount} {item}'\n",
        "deep/__init__.py": "",
        "deep/down.py": "from . import letters\nENDING = letters.DOT\n",
        "deep/letters.py": "DOT = '.'\n",
        "data/stock.json": '{"pears": 3}',
        "unused.py": "raise SystemExit('no file imports this')\n",
        ".env": "SHELF_KEY=secret\n",
        ".git/config": "[core]\n",
        "deep/__pycache__/down.cpython-311.pyc": "compiled",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


PACKAGED_FILES = [
    "data/stock.json", "deep/__init__.py", "deep/down.py", "deep/letters.py", "mcp-bridge.yaml", "tools.py", "words.py"
]  # fmt: skip
"""The files of the project that belong into a package. The others are unused, private or compiled."""


def unpack_bundle(bundle: Path, folder: Path) -> Path:
    """Unpack a bundle into a folder, and return the folder."""
    with ZipFile(bundle) as archive:
        archive.extractall(folder)
    return folder


def run_pip(*args: str | Path, python: str | Path = sys.executable, **env: str) -> subprocess.CompletedProcess[str]:
    """Run pip with the settings of this machine."""
    return subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *args],
        env=get_clean_environment(**env),
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT,
    )


def read_pip_settings_for_uv() -> dict[str, str]:
    """Return the package sources in pip's files and variables as variables of uv."""
    process = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        env=get_clean_environment(),
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT,
    )
    assert process.returncode == 0, process.stderr
    # Environment variables take precedence.
    lines = sorted(process.stdout.splitlines(), key=lambda line: line.startswith(":env:"))
    pairs = (line.partition("=") for line in lines)
    settings = {key.rpartition(".")[2]: ast.literal_eval(value) for key, _, value in pairs}
    variables = {UV_VARIABLES[key]: " ".join(value.split()) for key, value in settings.items() if key in UV_VARIABLES}
    if "UV_FIND_LINKS" in variables:
        variables["UV_FIND_LINKS"] = variables["UV_FIND_LINKS"].replace(" ", ",")
    ours = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_PYTHON": sys.executable, "UV_PYTHON_DOWNLOADS": "never"}
    return {name: value for name, value in {**ours, **variables}.items() if name not in os.environ}


def skip_or_fail(config: pytest.Config, reason: str) -> None:
    """Print the reason and skip the test. In CI the test fails."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    skip_loudly(config, reason)


def skip_loudly(config: pytest.Config, reason: str) -> None:
    """Print the reason and skip the test, also in CI."""
    print_uncaptured(config, reason)
    pytest.skip(reason)


def is_offline(errors: str) -> bool:
    """Whether the errors of an installer show that there is no network."""
    return any(words in errors for words in NO_NETWORK)


def build_wheel(factory: pytest.TempPathFactory, config: pytest.Config) -> Path:
    """Return the wheel of this repository. The first process of a test run builds it for all."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "the-wheel"
    with lock_file(folder.with_suffix(".lock")):
        if not any(folder.glob("*.whl")):
            process = run_pip("wheel", "--no-deps", "--wheel-dir", folder, ROOT)
            if process.returncode and is_offline(process.stderr):
                skip_or_fail(config, "NO NETWORK TO GET THE BUILD BACKEND, SO NOTHING MADE WITH A WHEEL IS TESTED")
            assert process.returncode == 0, process.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def find_site_packages(venv: Path) -> Path:
    """Return the folder with the packages of an environment."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return venv / ("Lib" if os.name == "nt" else f"lib/{version}") / "site-packages"


def add_dependencies(venv: Path) -> None:
    """Add the packages installed here to an environment: pip and the dependencies, but not the bridge."""
    find_site_packages(venv).mkdir(parents=True, exist_ok=True)
    # Python does not read .pth files in a folder that a .pth file names. So the editable installation of the bridge,
    # which is a .pth file, has no effect.
    (find_site_packages(venv) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))


def make_venv(folder: Path) -> Path:
    """Create an environment with the bridge's dependencies but without the bridge, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=BUILD_TIMEOUT)
    add_dependencies(folder)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


async def call_tool(command: str, args: list[str], env: Mapping[str, str], tool: str, arguments: dict[str, Any]) -> str:
    """Call a tool of a server by the official client, and return the text of the result."""
    server = StdioServerParameters(command=command, args=args, env=dict(env), cwd="/")
    async with Client(stdio_client(server)) as client:
        result = await client.call_tool(tool, arguments)
    return str(result.content[0].text)
