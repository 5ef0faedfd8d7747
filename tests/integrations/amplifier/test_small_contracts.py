"""Small items of the contracts: schemas of other types, the id of the call, the output of hooks, errors of loading."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mcp_bridge import ToolCall
from mcp_bridge._contracts.running_call import RunningCall
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS, ServedPlan
from tests.kits.loops import BOTH_LOOPS

pytestmark = pytest.mark.usefixtures("forgotten", "host")

SCALAR = """
class Shout:
    name, description = "shout", "Says it louder."
    input_schema = {"type": "string"}

    async def execute(self, input):
        return {"success": True, "output": input.upper()}

async def mount(coordinator, config):
    await coordinator.mount("tools", Shout())
"""
LOOKS = """
async def mount(coordinator, config):
    def before(event, data):
        given = data["tool_input"]
        if given["input"] == "secret":
            return HookResult(action="deny", reason="it is secret")
        return HookResult(action="modify", data={"tool_input": CHANGED})
    coordinator.hooks.register("tool:pre", before)
"""


@BOTH_HOSTS
async def test_a_tool_with_a_schema_of_another_type_receives_the_value(tmp_path: Path) -> None:
    async with ServedPlan(tmp_path, {"scalar": SCALAR}).connect() as client:
        result = await client.call_tool("shout", {"input": "pears"})
        assert (result.is_error, result.content[0].text) == (False, "PEARS")


@pytest.mark.parametrize(
    ("changed", "text"), [("{'input': given['input'] + '!'}", "PEARS!"), ("{'other': 1}", "expected type string")]
)
async def test_hooks_receive_such_a_value_as_clients_send_it(tmp_path: Path, changed: str, text: str) -> None:
    modules = {"scalar": SCALAR, "looks": LOOKS.replace("CHANGED", changed)}
    async with ServedPlan(tmp_path, modules, tools=["scalar"], hooks=["looks"]).connect() as client:
        assert text in (await client.call_tool("shout", {"input": "pears"})).content[0].text
        denial = await client.call_tool("shout", {"input": "secret"})
        assert "it is secret" in denial.content[0].text


SECOND_FORM = """
class Mine:
    name, description = "mine", "Returns the id of its call."
    seen = []

    async def execute(self, input):
        self.seen.append(input.get("_tool_call_id", ""))
        return ToolResult(tool_call_id=input.get("_tool_call_id", ""), output=list(self.seen), is_error=False)

async def mount(coordinator, config):
    await coordinator.mount("tools", Mine(), name="mine")
"""


@BOTH_LOOPS
async def test_a_tool_that_reads_the_id_of_its_call_gets_it_with_the_first_call(tmp_path: Path) -> None:
    server = ServedPlan(tmp_path, {"second": SECOND_FORM})
    async with server.run_bridge():
        call = ToolCall(id="7", name="mine", arguments={})
        assert (await server.bridge.registry.dispatch(call, RunningCall(request_id="7"))).output == ["7"]


PRINTS = """
import sys

async def mount(coordinator, config):
    def before(event, data):
        print("printed by a hook")
        print("printed by a hook", file=sys.stderr)
        return HookResult(action="continue", user_message="seen", suppress_output=SUPPRESSED)
    coordinator.hooks.register("tool:pre", before)
    coordinator.mount("tools", MockTool("mine", "done"))
"""


@pytest.mark.parametrize("suppressed", [True, False])
async def test_what_a_hook_prints_never_reaches_a_client(tmp_path: Path, suppressed: bool) -> None:
    module = PRINTS.replace("SUPPRESSED", str(suppressed))
    async with ServedPlan(tmp_path, {"prints": module}).connect() as client:
        result = await client.call_tool("mine", {})
        assert [block.text for block in result.content] == ["done"]


INVALID_FOR_CORE = """
__amplifier_module_type__ = "provider"

async def mount(coordinator, config):
    await coordinator.mount("tools", MockTool("mine", "done"))
"""


@pytest.mark.parametrize("host", ["core"], indirect=True)
async def test_a_module_that_is_mounted_is_not_logged_as_failed(
    tmp_path: Path, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    package = tmp_path / "odd" / "amplifier_module_odd"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from amplifier_core import MockTool\n" + INVALID_FOR_CORE)
    server = ServedPlan(tmp_path, {}, tools=[{"module": "odd", "source": "odd"}])
    async with server.run_bridge():
        assert (await server.bridge.registry.ainvoke("mine", {})).ok
        assert server.problems == []
    assert "which fails the validation of amplifier-core" in caplog.text
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
