"""Checks of the Tool contract: what a tool declares, and what it does with valid and with odd arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._integrations.amplifier.results import to_result
from mcp_bridge._integrations.amplifier.validation.examiner import (
    CallOutcome,
    Examiner,
    Step,
    describe_method_problem,
    truncate,
)
from mcp_bridge._integrations.amplifier.validation.mounting import ModuleUnderTest
from mcp_bridge._json_schema.references import resolve_pointer
from mcp_bridge._json_schema.validator import Validator, check_schema
from mcp_bridge._runtime.third_party import describe_error, resolve_awaitable

LONG_TEXT = "sample \N{SNOWMAN} \x07 " * 200
MAX_DEPTH = 8  # the depth of generated arguments
MAX_VALUES = 1_000  # the values of generated arguments: references can double them at each level
MAX_LENGTH = 100_000  # characters of the longest generated text
_ANY_OBJECT: dict[str, Any] = {"type": "object"}
_FORMATS = {
    "date": "2020-02-29",
    "date-time": "2020-02-29T12:00:00Z",
    "time": "12:00:00Z",
    "email": "nobody@example.invalid",
    "uri": "https://example.invalid/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "hostname": "example.invalid",
}


def build_tool_steps(examiner: Examiner, mounted: ModuleUnderTest) -> list[Step]:
    tools = mounted.coordinator.list_mounted("tool").items()
    return [step for key, tool in tools for step in _ToolCheck(examiner, key, tool).build_steps()]


class _ToolCheck:
    def __init__(self, examiner: Examiner, key: str, tool: Any) -> None:
        self._examiner = examiner
        self._key = key
        self._tool = tool
        self._schema: Mapping[str, Any] = _ANY_OBJECT
        self._validator: Validator | None = None

    def build_steps(self) -> list[Step]:
        group = f"tool.execute:{self._key}"
        steps = [
            Step(item="tool.name", run=self._check_protocol, subject=self._key),
            Step(item="tool.schema_valid", run=self._check_schema, subject=self._key),
        ]
        if callable(getattr(self._tool, "execute", None)):
            steps += [
                Step(item="tool.errors", run=self._check_calls, slow="tool.time", subject=self._key, group=group),
                Step(item="tool.cancel", run=self._check_cancellation, subject=self._key, group=group),
                Step(
                    item="tool.validates",
                    run=self._check_invalid_calls,
                    slow="tool.validates",
                    subject=self._key,
                    group=group,
                ),
            ]
        return steps

    async def _check_protocol(self) -> None:
        for name in ("name", "description"):
            value = getattr(self._tool, name, None)
            problem = "" if isinstance(value, str) and value.strip() else f"`{name}` of '{self._key}' is {value!r}"
            self._examiner.check(f"tool.{name}", problem, f"Add `{name}`, as a class attribute or a property")
        problem = describe_method_problem(self._tool, "execute", {})
        self._examiner.check("tool.execute", self._prefix_problem(problem), "Write `async def execute(self, input)`")

    async def _check_schema(self) -> None:
        examiner, tool = self._examiner, self._tool
        schema = getattr(tool, "input_schema", None)
        if schema is None and callable(getattr(tool, "get_schema", None)):
            schema = tool.get_schema()
        if not schema:
            examiner.report_failed("tool.schema", f"'{self._key}' has none", "Add `input_schema`, or `get_schema()`")
            examiner.report_skipped("tool.schema_valid", "it has no schema")
            return
        examiner.report_passed("tool.schema")
        problem = describe_schema_problem(schema)
        if not problem:
            self._schema, self._validator = schema, Validator(schema)
        advice = "Write JSON Schema 2020-12, of type object"
        examiner.check("tool.schema_valid", self._prefix_problem(problem), advice)

    async def _check_calls(self) -> None:
        """Call the tool with a sample and with unusual but valid arguments, until a call is too slow."""
        examiner, before = self._examiner, self._examiner.log_counter.count
        valid = [arguments for arguments in self._generate_all() if self._is_valid(arguments)]
        for arguments in valid:
            if not await self._call(arguments):
                return
        for item in ("tool.result", "tool.errors", "tool.time"):
            if valid:
                examiner.report_passed(item)
            else:
                examiner.report_skipped(item, f"no valid arguments for '{self._key}' were found")
        examiner.report_passed("tool.input")
        problem = "" if examiner.log_counter.count > before else f"'{self._key}' logged nothing, at any level"
        examiner.check("tool.logs", problem, "Log what it does with logging.getLogger(__name__)")

    async def _check_invalid_calls(self) -> None:
        """Call the tool with arguments that its schema does not allow, until a call is too slow."""
        invalid = [arguments for arguments in self._generate_all() if not self._is_valid(arguments)]
        for arguments in invalid:
            if not await self._call(arguments):
                return
        if invalid:
            self._examiner.report_passed("tool.validates")
        else:
            self._examiner.report_skipped("tool.validates", f"the schema of '{self._key}' allows any arguments")

    def _generate_all(self) -> list[dict[str, Any]]:
        return [generate_arguments(self._schema), *generate_odd_arguments(self._schema)]

    def _is_valid(self, arguments: dict[str, Any]) -> bool:
        return self._validator is None or self._validator.is_valid(arguments)

    async def _call(self, arguments: dict[str, Any]) -> bool:
        """Call the tool once. Return whether it ended in time."""
        examiner, given = self._examiner, deepcopy(arguments)
        outcome = await examiner.call(self._tool.execute, given)
        call = f"'{self._key}' with {truncate(repr(arguments), 80)}"
        if not self._is_valid(arguments):
            self._check_rejection(outcome, call)
        elif outcome.is_slow:
            advice = "Return sooner, or allow more with --timeout"
            examiner.report_failed("tool.time", f"{call} did not return in time", advice)
        elif outcome.error is not None:
            advice = "Catch what it raises, and return success=False with the reason"
            examiner.report_failed("tool.errors", f"{call} raised {outcome.problem}", advice)
        elif not isinstance(_read_result(outcome), ToolResult):
            found = f"{call} returned a {type(outcome.result).__name__}"
            examiner.report_failed("tool.result", found, "Return ToolResult(success=..., output=..., error=...)")
        if not outcome.is_slow and given != arguments:
            examiner.report_failed(
                "tool.input", f"{call} has changed them to {truncate(repr(given), 80)}", "Work on a copy of the input"
            )
        return not outcome.is_slow

    def _check_rejection(self, outcome: CallOutcome, call: str) -> None:
        """Check that a call with invalid arguments has resulted in a failure."""
        result = _read_result(outcome)
        if outcome.is_slow:
            problem = "did not return in time"
        elif outcome.error is not None:
            problem = f"raised {outcome.problem}"
        elif not isinstance(result, ToolResult):
            problem = f"returned a {type(outcome.result).__name__}"
        else:
            problem = "succeeded" if result.success else ""
        if problem:
            advice = "Validate the arguments first, and return success=False where they are invalid"
            self._examiner.report_failed("tool.validates", f"{call}, which are invalid, {problem}", advice)

    async def _check_cancellation(self) -> None:
        arguments = generate_arguments(self._schema)
        problem = await _describe_cancellation(self._examiner, self._tool.execute, arguments)
        advice = "Let asyncio.CancelledError pass: catch Exception, and clean up in `finally`"
        self._examiner.check("tool.cancel", self._prefix_problem(problem), advice)

    def _prefix_problem(self, problem: str) -> str:
        return f"'{self._key}': {problem}" if problem else ""


def _read_result(outcome: CallOutcome) -> Any:
    try:
        return to_result(outcome.result)
    except Exception as error:  # a property of third-party code may raise anything
        return describe_error(error)


async def _describe_cancellation(examiner: Examiner, function: Any, arguments: dict[str, Any]) -> str:
    """Cancel a call once it waits. Return what is wrong with how it stops, or an empty text.

    asyncio itself cancels the task, once, as `asyncio.timeout` and other event loops' users do.
    """

    async def call() -> Any:
        return await resolve_awaitable(function(arguments))

    task = asyncio.ensure_future(call())
    await asyncio.sleep(0)
    if task.done():
        with suppress(BaseException):  # another item reports errors
            task.result()
        return ""
    examiner.report_call()
    task.cancel()
    ended, _ = await asyncio.wait([task], timeout=examiner.patience)
    if not ended:
        return "it went on after it was cancelled"
    if task.cancelled():
        return ""
    error = task.exception()
    return (
        f"it was cancelled and raised {describe_error(error)}" if error is not None else "it was cancelled and returned"
    )


def describe_schema_problem(schema: Any) -> str:
    """Why a value is not a valid JSON Schema of an object. Empty if it is one."""
    if not isinstance(schema, Mapping):
        return f"it is a {type(schema).__name__}"
    if problems := check_schema(schema):
        return problems[0]
    kind = schema.get("type", "object")
    return "" if kind == "object" else f"its type is {kind!r}, and arguments are an object"


def generate_arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The required arguments of a schema, with valid values as far as they are easy to find."""
    generated = _generate(schema, _SampleSource(schema), 0)
    return generated if isinstance(generated, dict) else {}


def generate_odd_arguments(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Arguments that are missing, of wrong types, too long, too deep or unknown."""
    properties = schema.get("properties")
    names = [str(name) for name in properties][:20] if isinstance(properties, Mapping) else []
    deep: Any = "end"
    for _ in range(50):
        deep = {"in": deep}
    return [
        {},
        dict.fromkeys(names),
        dict.fromkeys(names, LONG_TEXT) or {"text": LONG_TEXT},
        dict.fromkeys(names, -1) or {"number": -1},
        {name: [None] for name in names} or {"list": [None]},
        dict.fromkeys(names, deep) or {"deep": deep},
        {**generate_arguments(schema), "an_unknown_key": True},
    ]


@dataclass(slots=True)
class _SampleSource:
    """The schema that values are generated for, and how many more there may be."""

    root: Mapping[str, Any]
    left: int = MAX_VALUES


def _generate(schema: Any, source: _SampleSource, depth: int) -> Any:
    source.left -= 1
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH or source.left < 0:
        return None
    if "$ref" in schema:
        return _generate(resolve_pointer(str(schema["$ref"]), source.root), source, depth + 1)
    if "const" in schema:
        return schema["const"]
    for keyword in ("enum", "examples"):
        if isinstance(schema.get(keyword), list) and schema[keyword]:
            return schema[keyword][0]
    if "default" in schema:
        return schema["default"]
    for keyword in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(keyword), list) and schema[keyword]:
            return _generate_combined(schema, keyword, source, depth)
    return _generate_typed(schema, source, depth)


def _generate_combined(schema: Mapping[str, Any], keyword: str, source: _SampleSource, depth: int) -> Any:
    """The first alternative, or all parts of `allOf`, merged with the keywords beside it."""
    rest = {key: value for key, value in schema.items() if key != keyword}
    chosen = schema[keyword] if keyword == "allOf" else schema[keyword][:1]
    parts = [_generate(part, source, depth + 1) for part in chosen]
    if "properties" not in rest and parts and not all(isinstance(part, dict) for part in parts):
        return parts[0]
    merged = _generate_typed({**rest, "type": "object"}, source, depth)
    for part in parts:
        merged.update(part if isinstance(part, dict) else {})
    return merged


def _generate_typed(schema: Mapping[str, Any], source: _SampleSource, depth: int) -> Any:
    kind = schema.get("type", "object" if "properties" in schema or depth == 0 else "string")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object":
        properties = schema.get("properties", {})
        names = schema.get("required", [])
        return {str(name): _generate(properties.get(name, {}), source, depth + 1) for name in names}
    if kind == "array":
        count = min(schema.get("minItems", 0), 10)
        return [_generate(schema.get("items", {}), source, depth + 1) for _ in range(count)]
    if kind in ("integer", "number"):
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        number = low + 1 if "exclusiveMinimum" in schema else max(low, min(1, schema.get("maximum", 1)))
        step = schema.get("multipleOf")
        return number if not step else -(-number // step) * step
    text = _FORMATS.get(str(schema.get("format")), "sample")
    text = text.ljust(min(schema.get("minLength", 0), MAX_LENGTH), "x")[: schema.get("maxLength", MAX_LENGTH)]
    return {"boolean": False, "null": None}.get(str(kind), text)
