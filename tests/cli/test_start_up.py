"""The start of each command imports little."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_bridge._runtime.platform.supervisor import list_descendants
from tests.kits.cli.cli_running import LIST, format_requests

HEAVY = ("mcp", "mcp_types", "starlette", "uvicorn", "httpx2", "amplifier_core")
NOT_FOR_PLAIN_TOOLS = {
    *HEAVY, "cachetools", "cryptography", "docstring_parser", "jsonschema_rs", "opentelemetry", "platformdirs",
    "pydantic", "pydantic_core", "rich", "ruamel", "typer", "watchfiles",
}  # fmt: skip
"""What `serve` of a Python file does not import to list its tools, if schemas or types are plain."""
# Other systems have no supervisor.
if sys.platform == "linux":
    NOT_FOR_PLAIN_TOOLS.add("psutil")


LATE = {
    f"mcp_bridge.{name}"
    for name in (
        "_engine.authoring.dependencies", "_contracts.content", "_engine.call_log",
        "_runtime.secret_forms", "_json_schema.inference", "_json_schema.messages", "_json_schema.secret_names",
        "_json_schema.text_arguments", "_json_schema.validator", "_server.completions", "_protocol.wire.content",
        "_protocol.wire.messages", "_protocol.wire.resource_contents",
    )
} | {"unicodedata"}  # fmt: skip
"""What `serve` imports for the first call, for resources and prompts that are used, for logs of calls, for secrets."""


def list_imported_packages(*args: str, cwd: Path, line: str = "") -> set[str]:
    """Return the top-level packages imported by a command."""
    return {name.partition(".")[0] for name in list_imports(*args, cwd=cwd, line=line)}


def list_imports(*args: str, cwd: Path, line: str = "") -> set[str]:
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "mcp_bridge", *args],
        cwd=cwd, input=line, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a file with one tool, and settings with it."""
    source = 'from mcp_bridge import ToolEntry\na = ToolEntry("a", "A.", lambda data: 1, {"type": "object"})\n'
    (tmp_path / "tools.py").write_text(source)
    (tmp_path / "x.yaml").write_text("sources: [{type: python, path: tools.py}]\n")
    return tmp_path


@pytest.mark.parametrize(
    ("args", "besides"),
    [
        (["--help"], {"pydantic", "anyio", "rich", "ruamel", "jsonschema_rs"}),
        (["list"], {"ruamel", "watchfiles", "uvloop"}),
        (["validate"], {"rich", "ruamel", "watchfiles", "uvloop"}),
        (["call", "a"], {"rich", "ruamel", "watchfiles"}),
        (["validate", "x.yaml"], {"rich", "watchfiles"}),
    ],
)
def test_a_command_imports_neither_the_sdk_nor_a_web_server(folder: Path, args: list[str], besides: set[str]) -> None:
    assert list_imported_packages(*args, cwd=folder) & {*HEAVY, *besides} == set()


@pytest.mark.parametrize(
    "args", [["list"], ["call", "a", "{}"], ["read", "a://b"], ["get", "a"]], ids=lambda args: args[0]
)
def test_a_command_that_uses_another_server_does_not_import_the_sdk(folder: Path, args: list[str]) -> None:
    (folder / "more.py").write_text(
        "from mcp_bridge import prompt, resource\n@resource('a://b')\ndef b() -> str: return 'b'\n"
        "@prompt\ndef a() -> str: return 'a'\n"
    )
    (folder / "x.yaml").write_text("sources: [{type: python, path: tools.py}, {type: python, path: more.py}]\n")
    server = ["--", sys.executable, "-m", "mcp_bridge", "serve", "x.yaml"]
    assert list_imported_packages(*args, *server, cwd=folder) & set(HEAVY) == set()


@pytest.mark.parametrize(
    "source",
    [
        'from mcp_bridge import ToolEntry\na = ToolEntry("a", "A.", lambda data: 1, {"type": "object"})\n',
        "from mcp_bridge import tool\n@tool(input_schema={'properties': {'b': {'minimum': 1}}})\ndef a(data): ...\n",
        'from mcp_bridge import tool\n@tool\ndef a(b: str, c: list[int] | None = None) -> str:\n    """Do it."""\n',
    ],
    ids=["entry", "dict schema", "plain types"],
)
def test_serving_plain_tools_imports_nothing_heavy(tmp_path: Path, source: str) -> None:
    (tmp_path / "tools.py").write_text(source)
    names = list_imported_packages("serve", "tools.py", cwd=tmp_path, line=format_requests(LIST))
    assert "anyio" in names
    assert names & NOT_FOR_PLAIN_TOOLS == set()


def test_listing_tools_imports_nothing_that_only_calls_need(folder: Path) -> None:
    names = list_imports("serve", "tools.py", cwd=folder, line=format_requests(LIST))
    assert "mcp_bridge._server.tools.methods" in names
    assert names & LATE == set()


@pytest.mark.parametrize(("first", "imports"), [("import json", False), ("import amplifier_core", True)])
def test_amplifier_core_is_imported_only_for_modules_that_import_it(folder: Path, first: str, imports: bool) -> None:
    module = "from mcp_bridge.amplifier.testing import MockTool\n\ndef mount(c, d):\n    return MockTool('mine')\n"
    (folder / "mine.py").write_text(f"{first}\n{module}")
    (folder / "plan.yaml").write_text("tools: [{module: mine, source: mine.py}]\n")
    assert ("amplifier_core" in list_imported_packages("validate", "plan.yaml", cwd=folder)) is imports


def test_importing_the_package_imports_nothing_but_itself(tmp_path: Path) -> None:
    code = (
        "import sys; before = set(sys.modules); import mcp_bridge; new = set(sys.modules) - before;"
        "print(sorted(name for name in new if name.partition('.')[0] not in sys.stdlib_module_names))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert result.stdout == "['mcp_bridge']\n", result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the supervisor needs Linux")
def test_each_supervisor_has_less_than_three_megabytes_of_its_own(folder: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    with subprocess.Popen(
        [sys.executable, "-m", "mcp_bridge", "serve", "tools.py"],
        cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as front:  # fmt: skip
        assert front.stdin is not None
        assert front.stdout is not None
        front.stdin.write(format_requests(LIST))
        front.stdin.flush()
        assert '"tools"' in front.stdout.readline()
        reaper, _server = list_descendants(front.pid)[:2]
        sizes = [read_private_kilobytes(pid) for pid in (front.pid, reaper)]
        front.stdin.close()
    assert max(sizes) < 3 * 1024


def read_private_kilobytes(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(map(int, re.findall(r"^Private_\w+: +(\d+) kB$", rollup, re.MULTILINE)))
