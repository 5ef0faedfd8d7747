"""The choice of the host of a plan, by the settings or by the imports of its modules."""

from __future__ import annotations

import logging
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._integrations.amplifier.hosts import choose_host, is_core_installed, needs_core
from mcp_bridge._integrations.amplifier.module_import import is_foreign
from mcp_bridge._integrations.amplifier.mount_plan import read_plan
from mcp_bridge._integrations.amplifier.source.resolver import Resolver
from mcp_bridge._settings import load
from mcp_bridge.amplifier import ModuleCoordinator, ModuleLoader, ModuleLoadError
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT
from tests.kits.hosts.hosts_kit import HOOK, TOOL, write_package
from tests.kits.loops import BOTH_LOOPS

pytestmark = pytest.mark.usefixtures("forgotten")
MISSING = "not installed. Run: pip install 'mcp-tool-bridge[amplifier]'"
NATIVE = "from mcp_bridge.amplifier.testing import MockTool\ndef mount(c, d): return MockTool('native')\n"
NEEDING = {
    "import amplifier_core": True,
    "import amplifier_core.events as events": True,
    "from amplifier_core.models import HookResult": True,
    "def mount(c, d):\n    from amplifier_core import ToolResult": True,
    "class A:\n    async def execute(self, i):\n        import amplifier_core": True,
    "if 1 > 0:\n    pass\nelse:\n    import amplifier_core": True,
    "try:\n    import other\nexcept ValueError:\n    import amplifier_core": True,
    "try:\n    pass\nfinally:\n    import amplifier_core": True,
    "match 1:\n    case 1:\n        import amplifier_core": True,
    "with open('x'):\n    import amplifier_core": True,
    "try:\n    import amplifier_core\nexcept ImportError:\n    amplifier_core = None": False,
    "try:\n    import amplifier_core\nexcept (ValueError, ModuleNotFoundError):\n    pass": False,
    "try:\n    import amplifier_core\nexcept:\n    pass": False,
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import amplifier_core": False,
    "import typing\nif typing.TYPE_CHECKING:\n    from amplifier_core import ToolResult": False,
    "if typing.TYPE_CHECKING:\n    pass\nelse:\n    import amplifier_core": True,
    "from .amplifier_core import x": False,
    "import amplifier_core_like": False,
    "'import amplifier_core'": False,
    "import amplifier_core (": False,
}


@pytest.mark.parametrize(("text", "needs"), NEEDING.items())
def test_a_module_needs_amplifier_core_if_it_cannot_run_without_it(text: str, needs: bool, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text)
    assert needs_core(tmp_path / "mine.py", "mine") is needs


def test_every_file_of_a_package_counts_and_nothing_is_imported(tmp_path: Path) -> None:
    root = write_package(tmp_path, "tool-deep", "raise SystemExit('imported')\n")
    assert not needs_core(root, "tool-deep")
    (root / "amplifier_module_tool_deep" / "more.py").write_text("from amplifier_core import ToolResult\n")
    (root / "amplifier_module_tool_deep" / "odd.py").write_bytes(b"\xff amplifier_core")
    assert needs_core(root, "tool-deep")
    assert needs_core(root / "amplifier_module_tool_deep", "tool-deep")
    assert not needs_core(tmp_path / "gone", "gone")


@pytest.mark.parametrize(
    ("name", "text", "foreign"),
    [
        ("amplifier.toml", '[module]\ntransport = "grpc"\n', True),
        ("amplifier.toml", '[module]\ntype = "tool"\n', False),
        ("amplifier.toml", "module = 1\n", False),
        ("amplifier.toml", "[module", False),
        ("module.wasm", "", True),
        ("other.txt", "", False),
    ],
)
async def test_a_module_of_another_language_needs_amplifier_core(
    name: str, text: str, foreign: bool, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text(NATIVE)
    assert needs_core(tmp_path, "mine") is is_foreign(tmp_path) is foreign
    loader = ModuleLoader(ModuleCoordinator())
    loader.coordinator.mount("module-source-resolver", Resolver(tmp_path))  # type: ignore[union-attr]
    if foreign:
        with pytest.raises(ModuleLoadError, match=r"not written in Python.*`host: core`.*mcp-tool-bridge\[amplifier\]"):
            await loader.load("mine", source_hint=".")
    else:
        assert (await loader.load("mine", source_hint=".")).name == "native"


def test_an_installed_module_is_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needs_it.py").write_text("import amplifier_core\n")
    (tmp_path / "package_here").mkdir()
    (tmp_path / "package_here" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert needs_core(EntryPoint("a", "needs_it:mount", "g"), "a")
    assert not needs_core(EntryPoint("a", "package_here.more:mount", "g"), "a")
    assert not needs_core(EntryPoint("a", "no_such_package_here:mount", "g"), "a")
    assert "needs_it" not in sys.modules


async def find_host(folder: Path, wanted: Any = "auto", **plan: Any) -> str:
    """Return the host of a plan."""
    return await choose_host(wanted, read_plan(plan)[0], Resolver(folder), [folder])


@pytest.fixture
def write_plan_modules(tmp_path: Path) -> dict[str, Any]:
    """A plan with a module for amplifier_core, another one, and a missing one."""
    write_package(tmp_path, "tool-greet", TOOL)
    (tmp_path / "native.py").write_text(NATIVE)
    return {"tools": ["native", {"module": "tool-greet", "source": "amplifier-module-tool-greet"}, "nowhere"]}


@BOTH_LOOPS
async def test_the_settings_choose_the_host_or_else_the_imports_of_modules(
    write_plan_modules: dict[str, Any], tmp_path: Path, anyio_backend: str
) -> None:
    assert await find_host(tmp_path, "native", **write_plan_modules) == "native"
    assert await find_host(tmp_path, tools=["native", "nowhere"]) == "native"
    if anyio_backend == "asyncio":
        assert await find_host(tmp_path, **write_plan_modules) == "core"
        assert await find_host(tmp_path, "core", tools=["native"]) == "core"
        assert await find_host(tmp_path, agents={"a": write_plan_modules}) == "core"
        return
    with pytest.raises(
        SourceError, match=r"amplifier-core, required by tool-greet, runs on asyncio only.*`host: native`"
    ):
        await find_host(tmp_path, **write_plan_modules)
    with pytest.raises(SourceError, match="amplifier-core, required by the settings, runs on asyncio only"):
        await find_host(tmp_path, "core", tools=["native"])


@pytest.mark.usefixtures("without_core")
async def test_the_log_names_the_missing_extra(
    write_plan_modules: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert not is_core_installed()
    assert await find_host(tmp_path, **write_plan_modules) == "native"
    assert f"tool-greet: written against amplifier_core, which is {MISSING}" in caplog.text
    with pytest.raises(SourceError) as caught:
        await find_host(tmp_path, "core", tools=["native"])
    assert str(caught.value).endswith(MISSING)


@pytest.mark.parametrize(("host", "code"), [("auto", 1), ("core", 1)])
def test_the_command_names_the_missing_extra(host: str, code: int, tmp_path: Path) -> None:
    write_package(tmp_path, "tool-greet", TOOL)
    (tmp_path / "native.py").write_text(NATIVE)
    (tmp_path / "s.yaml").write_text(
        f"sources:\n  - type: amplifier\n    host: {host}\n"
        "    plan: {tools: [native, {module: tool-greet, source: amplifier-module-tool-greet}]}\n"
    )
    program = "import sys; sys.modules['amplifier_core'] = None; from mcp_bridge._cli import main; main()"
    process = subprocess.run(
        [sys.executable, "-c", program, "validate", "s.yaml"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert process.returncode == code
    assert MISSING in process.stdout + process.stderr
    assert ("1 tool" in process.stdout + process.stderr) is (host == "auto")


async def test_settings_serve_modules_that_import_amplifier_core(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    write_package(tmp_path, "tool-greet", TOOL)
    write_package(tmp_path, "hooks-manners", HOOK)
    (tmp_path / "plan.yaml").write_text(
        "tools: [{module: tool-greet, source: amplifier-module-tool-greet}]\n"
        "hooks: [{module: hooks-manners, source: amplifier-module-hooks-manners}]\n"
    )
    bridge = build_from_settings(load(tmp_path / "plan.yaml", {}))
    with anyio.fail_after(TIMEOUT):
        async with connect(bridge) as client:
            assert (await client.call_tool("greet", {"who": "me"})).content[0].text == "Hello, you!"
            assert "not them" in (await client.call_tool("greet", {"who": "enemy"})).content[0].text
            failure = await client.call_tool("greet", {"who": "unknown-user"})
            assert [block.text for block in failure.content] == ["unknown user", '{"code":3}']
            assert failure.is_error
    assert not caplog.records


def test_an_unknown_host_is_an_error_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("sources:\n  - {type: amplifier, host: kernel, plan: {}}")
    with pytest.raises(ConfigError, match=r"s.yaml:2: sources\[0\].host: "):
        build_from_settings(load(tmp_path / "s.yaml", {}))
