"""Every rule for tools, for hooks and for all modules finds a violation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from mcp_bridge._integrations.amplifier.behavior import (
    SUITES,
    HookBehaviorTests,
    ModuleBehaviorTests,
    ToolBehaviorTests,
    find_violations,
)
from mcp_bridge._integrations.amplifier.behavior.module_tests import MOUNTING_RULE, check_rule, list_rules
from mcp_bridge._integrations.amplifier.behavior.tools import describe_schema_problem, generate_arguments
from mcp_bridge._json_schema.validator import Validator
from mcp_bridge.amplifier import HookResult, ToolResult
from mcp_bridge.amplifier.testing import MockTool
from tests.kits.amplifier.broken_modules import list_own_rules, run_rule

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


class Echo(MockTool):
    """A tool without violations."""

    def __init__(self) -> None:
        super().__init__("echo", input_schema=SCHEMA)
        self.execute = self.run  # type: ignore[assignment]

    async def run(self, input: dict[str, Any]) -> Any:
        return ToolResult(output=input.get("text", ""))


class Nameless(Echo):
    description = " "  # type: ignore[assignment]

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "description":
            super().__setattr__(name, value)


class WithoutInput(Echo):
    async def run(self) -> Any:  # type: ignore[override]
        return ToolResult(output="")


class OfText(Echo):
    def __init__(self) -> None:
        super().__init__()
        self.input_schema = {"type": "string"}


class Plain(Echo):
    async def run(self, input: dict[str, Any]) -> Any:
        return "a text"


class Changing(Echo):
    async def run(self, input: dict[str, Any]) -> Any:
        input.clear()
        return ToolResult(output="")


class Raising(Echo):
    async def run(self, input: dict[str, Any]) -> Any:
        raise ValueError("no")


class Trusting(Echo):
    async def run(self, input: dict[str, Any]) -> Any:
        return ToolResult(output=input["text"])


class Stubborn(Echo):
    async def run(self, input: dict[str, Any]) -> Any:
        try:
            await anyio.sleep(60)
        except BaseException:
            return ToolResult(output="")


def mount_tool(factory: Callable[[], Any]) -> Any:
    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        await coordinator.mount("tools", factory())

    return SimpleNamespace(mount=mount)


def mount_hook(handler: Any, event: str = "tool:pre", *, unregisters: bool = True) -> Any:
    async def mount(coordinator: Any, config: dict[str, Any]) -> Any:
        unregister = coordinator.hooks.register(event, handler, name="sample")
        return unregister if unregisters else None

    return SimpleNamespace(mount=mount)


async def decide(event: str, data: dict[str, Any]) -> HookResult:
    return HookResult()


def decide_at_once(event: str, data: dict[str, Any]) -> HookResult:
    return HookResult()


async def decide_nothing(event: str, data: dict[str, Any]) -> None: ...


async def decide_wrongly(event: str, data: dict[str, Any]) -> Any:
    return {"action": "perhaps"}


async def expect_command(event: str, data: dict[str, Any]) -> HookResult:
    data["tool_input"].get("command", "").lower()
    return HookResult()


TOOLS = [
    ("it_has_a_name_and_a_description", Nameless, "`description` of 'echo' is ' '"),
    ("execute_is_an_async_method_that_takes_the_input", WithoutInput, "its parameters are ()"),
    ("its_schema_is_that_of_an_object", OfText, "its type is 'string'"),
    ("valid_arguments_give_a_result_and_are_not_changed", Plain, "returned a str"),
    ("valid_arguments_give_a_result_and_are_not_changed", Changing, "has changed them"),
    ("valid_arguments_give_a_result_and_are_not_changed", Raising, "raised ValueError"),
    ("missing_arguments_cause_no_error_of_the_code", Trusting, "raised KeyError"),
    ("a_call_that_is_cancelled_stops", Stubborn, "was cancelled and returned"),
]
HOOKS = [
    ("handlers_are_async_functions_of_an_event_and_its_data", mount_hook(decide_at_once), "is not an `async def`"),
    ("handlers_return_a_decision", mount_hook(decide_nothing), "returned None"),
    ("handlers_return_a_decision", mount_hook(decide_wrongly), "returned no decision"),
    ("handlers_raise_nothing_for_unusual_data", mount_hook(expect_command), "raised AttributeError"),
    ("its_cleanups_unregister_the_handlers", mount_hook(decide, unregisters=False), "handlers of tool:pre remain"),
]


@pytest.mark.parametrize(("rule", "factory", "problem"), TOOLS)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_rule_finds_a_tool_that_breaks_it(rule: str, factory: Any, problem: str) -> None:
    assert problem in await run_rule(ToolBehaviorTests, rule, mount_tool(factory))


@pytest.mark.parametrize(("rule", "module", "problem"), HOOKS)
async def test_the_rule_finds_a_hook_that_breaks_it(rule: str, module: Any, problem: str) -> None:
    assert problem in await run_rule(HookBehaviorTests, rule, module)


async def test_good_modules_follow_every_rule() -> None:
    assert await find_violations(ToolBehaviorTests, mount_tool(Echo)) == {}
    assert await find_violations(HookBehaviorTests, mount_hook(decide)) == {}


async def test_a_tool_that_mount_returns_is_mounted() -> None:
    async def mount(coordinator: Any, config: dict[str, Any]) -> Any:
        return Echo()

    assert await find_violations(ToolBehaviorTests, SimpleNamespace(mount=mount)) == {}


async def test_handlers_that_are_registered_when_the_session_is_ready_are_checked() -> None:
    async def mount(coordinator: Any, config: dict[str, Any]) -> None: ...

    async def get_ready(coordinator: Any) -> None:
        coordinator.register_cleanup(coordinator.hooks.register("tool:pre", decide_nothing, name="late"))

    module = SimpleNamespace(mount=mount, on_session_ready=get_ready)
    assert sorted(await find_violations(HookBehaviorTests, module)) == ["handlers_return_a_decision"]


@pytest.mark.parametrize("failing_step", ["mount", "on_session_ready", "cleanup"])
async def test_a_module_that_fails_is_cleaned_up(failing_step: str) -> None:
    steps: list[str] = []

    async def run_step(step: str) -> None:
        steps.append(step)
        if step == failing_step:
            raise ValueError(f"{step} fails")

    async def mount(coordinator: Any, config: dict[str, Any]) -> Any:
        coordinator.register_cleanup(partial(run_step, "registered cleanup"))
        await coordinator.mount("tools", Echo())
        await run_step("mount")

        async def clean_up() -> None:
            await run_step("cleanup")

        return clean_up

    async def get_ready(coordinator: Any) -> None:
        await run_step("on_session_ready")

    module = SimpleNamespace(mount=mount, on_session_ready=get_ready)
    outcome = await check_rule(ToolBehaviorTests, MOUNTING_RULE, module)
    assert outcome.reason == f"ValueError: {failing_step} fails"
    cleanups = ["registered cleanup"] if failing_step == "mount" else ["cleanup", "registered cleanup"]
    assert steps[-len(cleanups) :] == cleanups


async def test_a_rule_that_takes_too_long_is_broken() -> None:
    async def mount(coordinator: Any, config: dict[str, Any]) -> None:
        await anyio.sleep_forever()

    outcome = await check_rule(ToolBehaviorTests, MOUNTING_RULE, SimpleNamespace(mount=mount), timeout=0.05)
    assert (outcome.state, outcome.reason) == ("failed", "it took more than 0.05 seconds")


async def test_the_rules_of_all_modules_find_those_that_break_them() -> None:
    mounted: list[Any] = []

    async def mount_once(coordinator: Any, config: dict[str, Any]) -> Any:
        if not mounted:
            mounted.append(await coordinator.mount("tools", Echo()))

    async def fail() -> None:
        raise ValueError("it does not close")

    async def mount_without_end(coordinator: Any, config: dict[str, Any]) -> Any:
        coordinator.register_cleanup(fail)
        await coordinator.mount("tools", Echo())

    def mount_plainly() -> None: ...

    async def mount_nothing(coordinator: Any, config: dict[str, Any]) -> None: ...

    broken = {
        "it_mounts_what_its_type_requires": (mount_nothing, "`mount` mounted nothing at 'tools'"),
        "mount_is_an_async_function_of_a_coordinator_and_a_configuration": (mount_plainly, "not an `async def`"),
        "two_sessions_can_mount_it_at_once_with_the_same_result": (mount_once, "has echo, the second nothing"),
    }
    for rule, (mount, problem) in broken.items():
        assert problem in await run_rule(ToolBehaviorTests, rule, SimpleNamespace(mount=mount))
    module = SimpleNamespace(mount=mount_without_end)
    assert await find_violations(ToolBehaviorTests, module) == {
        "its_cleanups_raise_nothing": "ValueError: it does not close"
    }
    assert set(list_rules(ModuleBehaviorTests)) == {*broken, "its_cleanups_raise_nothing"}


def test_every_rule_has_an_example() -> None:
    assert list_own_rules(ToolBehaviorTests) == {rule for rule, *_ in TOOLS}
    assert list_own_rules(HookBehaviorTests) == {rule for rule, *_ in HOOKS}
    assert list(SUITES) == ["tool", "provider", "orchestrator", "context", "hook"]


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": {"a": {"type": "string", "minLength": 9, "maxLength": 12}}, "required": ["a"]},
        {"properties": {"a": {"enum": ["x", "y"]}, "b": {"const": 3}}, "required": ["a", "b"]},
        {"properties": {"a": {"type": "integer", "minimum": 5, "multipleOf": 7}}, "required": ["a"]},
        {"properties": {"a": {"type": "number", "exclusiveMinimum": 5}}, "required": ["a"]},
        {"properties": {"a": {"type": ["integer", "null"], "maximum": -3, "minimum": -9}}, "required": ["a"]},
        {"properties": {"a": {"type": "boolean"}, "b": {"type": "null"}}, "required": ["a", "b"]},
        {"properties": {"a": {"type": "array", "items": {"type": "integer"}, "minItems": 2}}, "required": ["a"]},
        {"properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}, "required": ["a"]},
        {"properties": {"a": {"type": "string", "pattern": "^z+$", "examples": ["zz"]}}, "required": ["a"]},
        {"$defs": {"one": SCHEMA}, "properties": {"a": {"$ref": "#/$defs/one"}}, "required": ["a"]},
    ],
    ids=str,
)
def test_sample_arguments_are_valid(schema: dict[str, Any]) -> None:
    assert Validator(schema).is_valid(generate_arguments(schema))


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "objekt"}, "objekt"),
        ({"type": "string"}, "arguments are an object"),
        ({"properties": {"a": {"pattern": "(?=a)"}}}, "linear time"),
        ({"$ref": "https://example.invalid/schema"}, "example.invalid"),
        ([], "it is a list"),
    ],
)
def test_the_problem_of_a_schema_is_described(schema: Any, problem: str) -> None:
    assert problem in describe_schema_problem(schema)
