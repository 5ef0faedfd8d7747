"""Checks the steps of a chain against the schemas of its tools, before the chain runs.

The source of chains reports the problems at the start. `ChainContext` follows what each step adds to the context, and
each step is compared with the schema of its tool: does it pass the required arguments, and can the types match?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mcp_bridge._engine.tool_use.chain_schema import FindTool
from mcp_bridge._engine.tool_use.steps import ChainStep
from mcp_bridge._json_schema.references import resolve_schema
from mcp_bridge._json_schema.type_sets import list_types, simplify_types
from mcp_bridge._json_schema.validator import validate

_PROPERTY_SOURCES = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "patternProperties"})
"""The keywords that can describe properties in addition to `properties`."""
_MAX_LISTED = 20
"""The maximum number of names that an error lists."""


class WiringProblem(NamedTuple):
    """A problem of a chain.

    Attributes:
        step: The step, counted from 0; None for a problem of the chain's output.
        argument: The argument of the step's tool; None for a problem of the whole step.
        text: The problem, for the author of the chain.
    """

    step: int | None
    argument: str | None
    text: str


class KnownValue(NamedTuple):
    """A value in the context: its schema, the schema `root` with its definitions, and its origin in words."""

    schema: Any
    root: Mapping[str, Any]
    origin: str


@dataclass(slots=True)
class ChainContext:
    """The known values in the context of a chain before it runs. If `is_open`, there may be others."""

    values: dict[str, KnownValue] = field(default_factory=dict)
    is_open: bool = True

    def add_properties(self, schema: Mapping[str, Any], origin: str) -> None:
        """Add the properties of an object, as a step merges it into the context."""
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            self.values |= {
                name: KnownValue(property_schema, schema, origin) for name, property_schema in properties.items()
            }

    def find_value(self, path: str) -> KnownValue | str | None:
        """Return the value at a dotted path.

        Return a text with the problem if there cannot be such a value, and None if nothing is known about it.
        """
        if path in self.values:
            return self.values[path]
        head, *keys = path.split(".")
        value = self.values.get(head)
        if value is None:
            if self.is_open:
                return None
            return f"neither the input of the chain nor an earlier step has '{head}'. {_format_names(self.values)}"
        for key in keys:
            schema = resolve_schema(value.schema, value.root)
            properties = schema.get("properties")
            if not isinstance(properties, Mapping) or (key not in properties and _may_have_others(schema)):
                return None
            if key not in properties:
                return f"{value.origin} has no '{key}'. {_format_names(properties)}"
            value = value._replace(schema=properties[key])
        return value


def find_wiring_problems(
    find_tool: FindTool, steps: Sequence[ChainStep], input_schema: Mapping[str, Any], outputs: Sequence[str] = ()
) -> Iterator[WiringProblem]:
    """Yield the problems of a chain of existing tools: missing and unknown arguments, and wrong types.

    `input_schema` is that of the chain, and `outputs` are the paths of its returned values. A value with an unknown
    schema is not a problem. The check ends at a tool that does not exist, which the caller reports.
    """
    context = ChainContext(is_open=not isinstance(input_schema.get("properties"), Mapping))
    context.add_properties(input_schema, "the input of the chain")
    for number, step in enumerate(steps):
        tool = find_tool(step.tool_name)
        if tool is None:
            return
        schema = tool.input_schema if isinstance(tool.input_schema, Mapping) else {}
        for argument, text in _check_step(step, schema, context):
            yield WiringProblem(number, argument, text)
        output = tool.output_schema if isinstance(tool.output_schema, Mapping) else {}
        if step.output_key:
            context.values[step.output_key] = KnownValue(output, output, f"the output of '{step.tool_name}'")
        else:
            context.add_properties(output, f"the output of '{step.tool_name}'")
            is_known = isinstance(output.get("properties"), Mapping) and not _may_have_others(output)
            context.is_open = context.is_open or not is_known
    for path in outputs:
        problem = context.find_value(path)
        if isinstance(problem, str):
            yield WiringProblem(None, None, problem)


def _check_step(step: ChainStep, schema: Mapping[str, Any], context: ChainContext) -> Iterator[tuple[str | None, str]]:
    """Yield the problems of a step, each with its argument. `schema` is that of the step's tool."""
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    names = list(context.values) if step.takes_context else list({**step.input_mapping, **step.defaults})
    required = schema.get("required")
    may_have_more = step.takes_context and context.is_open
    if isinstance(required, Sequence) and not may_have_more:
        missing = [name for name in required if name not in names]
        for name in missing:
            yield None, f"'{step.tool_name}' requires the argument '{name}'"
    # Patterns may allow any other name.
    if schema.get("additionalProperties") is False and not schema.get("patternProperties"):
        advice = _advise(properties, takes_context=step.takes_context)
        unknown = [name for name in names if name not in properties]
        for name in unknown:
            argument = None if step.takes_context else name
            yield argument, f"'{step.tool_name}' has no argument '{name}'. {advice}"
    if step.takes_context:
        for target in names:
            yield from _check_type(target, context.values[target], properties, schema)
    for target, source in step.input_mapping.items():
        value = context.find_value(source)
        if isinstance(value, str):
            yield target, value
        elif value is not None:
            yield from _check_type(target, value, properties, schema)
    for target, constant in step.defaults.items():
        # References in the schema of the property resolve in these `$defs`.
        constant_schema = {"$defs": schema.get("$defs", {}), "allOf": [properties.get(target, {})]}
        for problem in validate(constant, constant_schema).errors:
            yield target, problem.removeprefix("$: ")


def _check_type(
    target: str, value: KnownValue, properties: Mapping[str, Any], schema: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield a problem if no value of the context's type can fit the argument."""
    tool_types = list_types(properties.get(target, {}), schema)
    value_types = list_types(value.schema, value.root)
    if value_types and tool_types.isdisjoint(value_types):
        expected, actual = _format_types(tool_types), _format_types(value_types)
        yield target, f"expected {expected}, but the value from {value.origin} is {actual}"


def _may_have_others(schema: Mapping[str, Any]) -> bool:
    """Whether a schema declares other properties than those in its `properties`."""
    return bool(schema.get("additionalProperties")) or not _PROPERTY_SOURCES.isdisjoint(schema)


def _format_types(types: frozenset[str]) -> str:
    return " or ".join(simplify_types(types)) or "nothing"


def _advise(properties: Mapping[str, Any], *, takes_context: bool) -> str:
    """Return a hint for an error about an unknown argument: the arguments of the tool, and why the step passes more."""
    if not takes_context:
        return _format_names(properties) if properties else "It has no arguments"
    reason = "This step has no `input`, so it passes the whole context"
    if not properties:
        return f"{reason}. Write `input: {{}}` to pass no arguments"
    return f"{_format_names(properties)}. {reason}"


def _format_names(names: Mapping[str, Any]) -> str:
    if not names:
        return "It is empty"
    return f"Known names: {', '.join(str(name) for name in list(names)[:_MAX_LISTED])}"
