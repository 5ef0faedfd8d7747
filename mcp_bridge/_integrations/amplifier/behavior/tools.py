"""The suite of tests for tools (TOOL_CONTRACT 1.0.0). They call each tool with sample arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any

from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._integrations.amplifier.behavior.module_tests import (
    ModuleBehaviorTests,
    require,
    require_async_method,
    require_parameters,
    skip_rule,
)
from mcp_bridge._integrations.amplifier.inspection import read_schema
from mcp_bridge._integrations.amplifier.results import to_result
from mcp_bridge._json_schema.references import resolve_pointer
from mcp_bridge._json_schema.schema_checks import check_schema
from mcp_bridge._json_schema.validator import Validator
from mcp_bridge._runtime.third_party import describe_error, resolve_awaitable

# The limits of generated values. The schemas come from third parties.
_MAX_DEPTH = 8
_MAX_ITEMS = 10
_MAX_VALUES = 1000
_MAX_LENGTH = 100_000
_FORMATS = {
    "date": "2020-02-29",
    "date-time": "2020-02-29T12:00:00Z",
    "time": "12:00:00Z",
    "email": "sample@example.invalid",
    "uri": "https://example.invalid/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "hostname": "example.invalid",
}


class ToolBehaviorTests(ModuleBehaviorTests):
    """The rules that every tool must follow. A module may mount several tools, and each follows them."""

    mount_point = "tools"

    async def test_it_has_a_name_and_a_description(self) -> None:
        async with self.mount_module() as coordinator:
            for key, tool in self.list_mounted(coordinator).items():
                for field in ("name", "description"):
                    value = getattr(tool, field, None)
                    require(isinstance(value, str) and value.strip(), f"`{field}` of '{key}' is {value!r}")

    async def test_execute_is_an_async_method_that_takes_the_input(self) -> None:
        async with self.mount_module() as coordinator:
            for tool in self.list_mounted(coordinator).values():
                require_async_method(tool, "execute")
                require_parameters(tool.execute, {})

    async def test_its_schema_is_that_of_an_object(self) -> None:
        async with self.mount_module() as coordinator:
            for key, tool in self.list_mounted(coordinator).items():
                problem = describe_schema_problem(_read_schema(tool))
                require(not problem, f"the schema of '{key}': {problem}")

    async def test_valid_arguments_give_a_result_and_are_not_changed(self) -> None:
        async with self.mount_module() as coordinator:
            for key, tool in self.list_mounted(coordinator).items():
                arguments = _find_sample(key, tool)
                copy = deepcopy(arguments)
                call = f"'{key}' with {arguments!r:.80}"
                try:
                    result = await resolve_awaitable(tool.execute(copy))
                except Exception as error:
                    raise AssertionError(f"{call} raised {describe_error(error)}") from error
                is_result = isinstance(to_result(result), ToolResult)
                require(is_result, f"{call} returned a {type(result).__name__} instead of a ToolResult")
                require(copy == arguments, f"{call} has changed them to {copy!r:.80}")

    async def test_missing_arguments_cause_no_error_of_the_code(self) -> None:
        async with self.mount_module() as coordinator:
            for key, tool in self.list_mounted(coordinator).items():
                try:
                    await resolve_awaitable(tool.execute({}))
                except (AttributeError, TypeError, LookupError) as error:
                    raise AssertionError(f"'{key}' without arguments raised {describe_error(error)}") from error
                except Exception as error:
                    # The contract allows errors of validation.
                    skip_rule(f"'{key}' without arguments raised {describe_error(error)}")

    async def test_a_call_that_is_cancelled_stops(self) -> None:
        async with self.mount_module() as coordinator:
            for key, tool in self.list_mounted(coordinator).items():
                await self._cancel_call(key, tool, _find_sample(key, tool))

    async def _cancel_call(self, key: str, tool: Any, arguments: dict[str, Any]) -> None:
        """Cancel the task of a call once, as asyncio does. An anyio scope would cancel it again and again."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            skip_rule("the test needs asyncio")
        task = loop.create_task(resolve_awaitable(tool.execute(arguments)))
        await asyncio.sleep(0)
        if task.done():
            # Another rule reports errors.
            with suppress(BaseException):
                task.result()
            return
        task.cancel()
        finished_tasks, _ = await asyncio.wait([task], timeout=self.timeout / 2)
        require(finished_tasks, f"'{key}' continues after it was cancelled")
        if not task.cancelled():
            error = task.exception()
            end = "returned" if error is None else f"raised {describe_error(error)}"
            raise AssertionError(f"'{key}' was cancelled and {end}")


def describe_schema_problem(schema: Any) -> str:
    """Return why a value is not a valid JSON Schema of an object; empty if it is one."""
    if not isinstance(schema, Mapping):
        return f"it is a {type(schema).__name__}"
    problems = check_schema(schema)
    if problems:
        return problems[0]
    schema_type = schema.get("type", "object")
    return "" if schema_type == "object" else f"its type is {schema_type!r}, and arguments are an object"


def generate_arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the required arguments of a schema. Their values are valid unless the schema has unusual conditions."""
    arguments = _SampleGenerator(schema).generate(schema)
    return arguments if isinstance(arguments, dict) else {}


def _read_schema(tool: Any) -> Any:
    schema = read_schema(tool)
    return {"type": "object"} if schema is None else schema


def _find_sample(key: str, tool: Any) -> dict[str, Any]:
    """Return valid arguments. If none are found, skip the rule."""
    schema = _read_schema(tool)
    if describe_schema_problem(schema):
        skip_rule(f"the schema of '{key}' is invalid")
    arguments = generate_arguments(schema)
    if not Validator(schema).is_valid(arguments):
        skip_rule(f"no valid arguments of '{key}' were found")
    return arguments


class _SampleGenerator:
    """Generates values for the parts of a schema.

    Their number is limited, because each level of references can double it.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._remaining = _MAX_VALUES

    def generate(self, schema: Any, depth: int = 0) -> Any:
        self._remaining -= 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self._remaining < 0:
            return None
        if "$ref" in schema:
            return self.generate(resolve_pointer(str(schema["$ref"]), self._root), depth + 1)
        for keyword in ("const", "default"):
            if keyword in schema:
                return schema[keyword]
        for keyword in ("enum", "examples"):
            if schema.get(keyword):
                return schema[keyword][0]
        for keyword in ("anyOf", "oneOf"):
            if schema.get(keyword) and "properties" not in schema:
                return self.generate(schema[keyword][0], depth + 1)
        return self._generate_typed(schema, depth)

    def _generate_typed(self, schema: Mapping[str, Any], depth: int) -> Any:
        # Arguments are an object even if the root of their schema has no type.
        is_object = "properties" in schema or depth == 0
        schema_type = schema.get("type", "object" if is_object else "string")
        if isinstance(schema_type, list) and schema_type:
            schema_type = schema_type[0]
        if schema_type == "object":
            properties = schema.get("properties", {})
            return {name: self.generate(properties.get(name, {}), depth + 1) for name in schema.get("required", ())}
        if schema_type == "array":
            count = min(schema.get("minItems", 0), _MAX_ITEMS)
            return [self.generate(schema.get("items", {}), depth + 1) for _ in range(count)]
        if schema_type in ("integer", "number"):
            return _generate_number(schema)
        if schema_type == "string":
            text = _FORMATS.get(str(schema.get("format")), "sample")
            return text.ljust(min(schema.get("minLength", 0), _MAX_LENGTH), "x")[: schema.get("maxLength", _MAX_LENGTH)]
        return False if schema_type == "boolean" else None


def _generate_number(schema: Mapping[str, Any]) -> Any:
    if "exclusiveMinimum" in schema:
        number = schema["exclusiveMinimum"] + 1
    else:
        number = max(schema.get("minimum", 0), min(1, schema.get("maximum", 1)))
    step = schema.get("multipleOf")
    if not step:
        return number
    # The floor division of the negative number rounds up to a multiple, so that the minimum still holds.
    return -(-number // step) * step
