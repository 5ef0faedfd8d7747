"""Handlers with results in another vocabulary, and chains with removed tools."""

from __future__ import annotations

from mcp_bridge import ChainStep, ToolChain, ToolEntry, ToolRegistry, ToolResult
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall
from mcp_bridge.testing import connect
from mcp_bridge.tool_use import Result, ResultStatus, validate_input


def build_registry(handler) -> ToolRegistry:
    registry = ToolRegistry()
    registry.register(ToolEntry("a", "", handler))
    return registry


def test_a_result_that_the_handler_returns_is_the_result_of_invoke() -> None:
    result = Result(ResultStatus.SKIPPED, message="not today")
    assert build_registry(lambda data: result).invoke("a", {}) is result


def test_a_handlers_failed_tool_result_is_a_failure_with_its_text() -> None:
    answer = build_registry(lambda data: ToolResult(success=False, output=3, error="no")).invoke("a", {})
    assert (answer.status, answer.message, answer.data) == (ResultStatus.FAILURE, "no", 3)


async def test_the_output_of_a_handlers_tool_result_is_the_data() -> None:
    registry = build_registry(lambda data: ToolResult(success=True, output={"n": 3}))
    assert registry.invoke("a", {}).data == {"n": 3}
    assert (await registry.ainvoke("a", {})).data == {"n": 3}


async def test_a_published_chain_that_cannot_run_returns_the_reason() -> None:
    registry = ToolRegistry()
    registry.register(ToolChain(registry).add_step(ChainStep("gone")).as_tool("chain"))
    async with connect(registry) as client:
        result = await client.call_tool("chain", {})
    assert result.is_error
    assert "step 1 of 1 of the chain calls 'gone', which is not a tool" in result.content[0].text


async def test_a_chain_whose_tool_leaves_while_it_runs_names_the_step() -> None:
    registry = ToolRegistry()
    registry.register(ToolEntry("first", "", lambda data: registry.unregister("second") and {}))
    registry.register(ToolEntry("second", "", lambda data: {}))
    chain = ToolChain(registry).add_step(ChainStep("first")).add_step(ChainStep("second"))
    registry.register(chain.as_tool("chain"))
    result = await registry.dispatch(ToolCall(id="1", name="chain", arguments={}), RunningCall())
    assert result.code == "tool_not_found"
    assert result.error_text.startswith("Step 2 of 2 ('second') failed: Unknown tool: second.")


def test_data_that_is_not_json_is_judged_by_every_keyword_that_speaks_of_it() -> None:
    schema = {"type": "object", "properties": {"n": {"const": 1}}, "maxProperties": 2}
    assert validate_input({"raw": b"x", "n": 1}, schema).valid
    assert validate_input({5: b"x", "n": 2}, schema).errors == ["$.n: 1 was expected"]


def test_a_key_that_cannot_become_text_does_not_make_validation_raise() -> None:
    class Silent:
        def __str__(self) -> str:
            raise RuntimeError("no")

        __hash__ = object.__hash__

    assert validate_input({Silent(): 1}, {"type": "object", "maxProperties": 1}).valid


def test_values_that_cannot_be_compared_are_not_in_an_enum() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no")

        __hash__ = None

    assert not validate_input(Odd(), {"enum": [1]}).valid


def test_an_iterator_that_is_validated_is_not_used_up() -> None:
    registry = ToolRegistry()
    registry.register(ToolEntry("t", "", lambda data: map(int, "12"), {}, {"type": "array"}))
    assert registry.invoke("t", {}).data == [1, 2]
