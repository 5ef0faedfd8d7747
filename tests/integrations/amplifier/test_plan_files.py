"""A mount plan as a settings file, with keys of the server and of an Amplifier source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge import ToolCall
from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._settings import load
from tests.kits.amplifier.amplifier_modules import MODULE, write_files
from tests.kits.constants import TIMEOUT

pytestmark = pytest.mark.usefixtures("forgotten")

PLAN = "tools:\n  - {module: here, source: here.py}\n"
HANGING = """
import anyio

async def mount(coordinator, config):
    coordinator.hooks.register("tool:pre", lambda event, data: anyio.sleep_forever())
"""


def get_problem(folder: Path, more: str) -> str:
    """Return the error of a plan with these keys besides its modules."""
    write_files(folder, {"here.py": MODULE, "plan.yaml": PLAN + more})
    with pytest.raises(ConfigError) as caught:
        build_from_settings(load(folder / "plan.yaml", {}))
    return str(caught.value)


async def call_here(folder: Path, more: str) -> tuple[Any, Any]:
    """Return the bridge of a plan with these keys besides its modules, and the result of a call of its tool."""
    write_files(folder, {"here.py": MODULE, "hanging.py": HANGING, "plan.yaml": PLAN + more})
    bridge = build_from_settings(load(folder / "plan.yaml", {}))
    with anyio.fail_after(TIMEOUT):
        async with bridge.run_sources():
            await bridge.wait_until_started()
            [entry] = bridge.registry.list()
            return bridge, await bridge.registry.dispatch(
                ToolCall(id="1", name=entry.name, arguments={}), RunningCall()
            )


async def test_the_options_of_the_source_apply(tmp_path: Path) -> None:
    hook = "hooks: [{module: hanging, source: hanging.py}]\nhook_timeout: 20ms\n"
    _, result = await call_here(tmp_path, hook)
    assert result.code == "denied"


async def test_the_keys_of_every_source_and_of_the_server_apply(tmp_path: Path) -> None:
    bridge, _ = await call_here(tmp_path, "prefix: mine\nname: modules\nlimits: {result: 300}\n")
    assert [entry.name for entry in bridge.registry.list()] == ["mine__here"]
    assert (bridge.identity.name, bridge.identity.result) == ("modules", 300)


@pytest.mark.parametrize(
    ("more", "line", "problem"),
    [
        ("whatever: 3\n", 3, "whatever: unknown key 'whatever'"),
        ("host: nowhere\n", 3, "host: expected one of 'auto', 'native' or 'core'"),
        ("agents: {}\nhook_timout: 3\n", 4, "hook_timout: unknown key 'hook_timout', did you mean 'hook_timeout'?"),
        ("hook: []\n", 3, "hook: unknown key 'hook', did you mean 'hooks'?"),
        ("limit: {result: 3}\n", 3, "limit: unknown key 'limit', did you mean 'limits'?"),
        ("limits: {results: 3}\n", 3, "limits.results: unknown key 'results', did you mean 'result'?"),
        ("isolation: {worker: 3}\n", 3, "isolation.worker: unknown key 'worker', did you mean 'workers'?"),
        ("type: amplifier\n", 3, "type: unknown key 'type'"),
        ("plan: {tools: []}\n", 3, "plan: this file is itself a mount plan"),
    ],
)
def test_other_keys_are_rejected_with_their_line(tmp_path: Path, more: str, line: int, problem: str) -> None:
    output = get_problem(tmp_path, more)
    assert output.startswith(f"{tmp_path}/plan.yaml:{line}: {problem}")


def test_a_secret_in_the_configuration_of_a_module_is_hidden_from_clients(tmp_path: Path) -> None:
    write_files(tmp_path, {"plan.yaml": "tools:\n  - {module: here, config: {word: '${WORD}'}}\n"})
    assert "pears and apples" in load(tmp_path / "plan.yaml", {"WORD": "pears and apples"}).hidden_from_clients
