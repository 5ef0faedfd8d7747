"""A project to package, the command in a separate process, and the official client for the package."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from tests.kits.constants import TIMEOUT
from tests.kits.node.needed import say
from tests.kits.node.toolchain import exclusive
from tests.kits.paths import ROOT

NO_NETWORK = (
    *("No matching distribution", "Temporary failure in name resolution", "NewConnectionError"),
    *("error sending request", "dns error", "Could not connect"),
)
FOR_UV = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}
"""What pip's options are called for uv, which reads nothing of pip's."""
BUILD = 300.0
"""Seconds for what installs packages."""

Official = Callable[[Sequence[str | Path], Path], str]
"""Runs the official tool for bundles with words in a folder: what it printed. It fails where the tool fails."""

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


@dataclass(frozen=True)
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout as one JSON document."""
        return json.loads(self.out)


def environment(**added: str) -> dict[str, str]:
    """Return this process' environment without variables that would affect another environment."""
    variables = {key: value for key, value in os.environ.items() if "COV" not in key and key != "PYTHONPATH"}
    return {**variables, **added}


def run(folder: Path, *args: str | Path, env: Mapping[str, str] | None = None) -> Done:
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
    return Done(process.returncode, process.stdout, process.stderr)


@cache
def command() -> Any:
    """The command line; making it takes longer than most of its commands."""
    return get_command(app)


def inside(folder: Path, *args: str | Path) -> Done:
    """Run a command in a folder, in this process. It must not start tools or configure a log."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            with report_errors():
                command()(list(map(str, args)))
        except SystemExit as end:
            return Done(int(end.code or 0), out.getvalue(), err.getvalue())
    raise AssertionError("it did not end")


def shelf(folder: Path) -> Path:
    """Create a project with a module, a package and data next to its tools, and with private files."""
    files = {
        "mcp-bridge.yaml": SETTINGS,
        "tools.py": TOOLS,
        "words.py": "def describe(item, amount):\n    return f'{amount} {item}'\n",
        "deep/__init__.py": "",
        "deep/down.py": "from . import letters\nENDING = letters.DOT\n",
        "deep/letters.py": "DOT = '.'\n",
        "data/stock.json": '{"pears": 3}',
        "unused.py": "raise SystemExit('nobody imports this')\n",
        ".env": "SHELF_KEY=secret\n",
        ".git/config": "[core]\n",
        "deep/__pycache__/down.cpython-311.pyc": "compiled",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


TRAVELLING = [
    "data/stock.json", "deep/__init__.py", "deep/down.py", "deep/letters.py", "mcp-bridge.yaml", "tools.py", "words.py"
]  # fmt: skip
"""What of the shelf is to arrive."""


def unpacked(bundle: Path, folder: Path) -> Path:
    """A bundle's content in a folder."""
    with ZipFile(bundle) as archive:
        archive.extractall(folder)
    return folder


def pip(*args: str | Path, python: str | Path = sys.executable, **env: str) -> subprocess.CompletedProcess[str]:
    """pip, as this machine is set up for it."""
    return subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *args],
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=BUILD,
    )


def pip_for_uv() -> dict[str, str]:
    """Return pip's package sources, from its files and variables, as variables of uv."""
    process = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=BUILD,
    )
    assert process.returncode == 0, process.stderr
    # Environment variables take precedence.
    lines = sorted(process.stdout.splitlines(), key=lambda line: line.startswith(":env:"))
    pairs = (line.partition("=") for line in lines)
    settings = {key.rpartition(".")[2]: ast.literal_eval(value) for key, _, value in pairs}
    variables = {FOR_UV[key]: " ".join(value.split()) for key, value in settings.items() if key in FOR_UV}
    if "UV_FIND_LINKS" in variables:
        variables["UV_FIND_LINKS"] = variables["UV_FIND_LINKS"].replace(" ", ",")
    ours = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_PYTHON": sys.executable, "UV_PYTHON_DOWNLOADS": "never"}
    return {name: value for name, value in {**ours, **variables}.items() if name not in os.environ}


def without(config: pytest.Config, reason: str) -> None:
    """Skip aloud, and fail in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    say(config, reason)
    pytest.skip(reason)


def offline(errors: str) -> bool:
    """Whether the errors of an installer show that there is no network."""
    return any(words in errors for words in NO_NETWORK)


def built_wheel(factory: pytest.TempPathFactory, config: pytest.Config) -> Path:
    """The project's wheel, built once in a run, however many processes share it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "the-wheel"
    with exclusive(folder.with_suffix(".lock")):
        if not any(folder.glob("*.whl")):
            process = pip("wheel", "--no-deps", "--wheel-dir", folder, ROOT)
            if process.returncode and offline(process.stderr):
                without(config, "NO NETWORK TO GET THE BUILD BACKEND, SO NOTHING MADE WITH A WHEEL IS TESTED")
            assert process.returncode == 0, process.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def site_packages(venv: Path) -> Path:
    """The folder of an environment's packages."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return venv / ("Lib" if os.name == "nt" else f"lib/{version}") / "site-packages"


def with_dependencies(venv: Path) -> None:
    """Give an environment the packages installed here, with pip and the dependencies, but without the bridge."""
    site_packages(venv).mkdir(parents=True, exist_ok=True)
    # .pth files in there, such as that of an editable installation, are not read from a folder named in one.
    (site_packages(venv) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))


def fresh_venv(folder: Path) -> Path:
    """Create an environment with the bridge's dependencies but without the bridge, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=BUILD)
    with_dependencies(folder)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


async def asked(command: str, args: list[str], env: Mapping[str, str], tool: str, arguments: dict[str, Any]) -> str:
    """Call a tool of a server by the official client, and return the text of the result."""
    server = StdioServerParameters(command=command, args=args, env=dict(env), cwd="/")
    async with Client(stdio_client(server)) as client:
        result = await client.call_tool(tool, arguments)
    return str(result.content[0].text)
