"""Inspects hooks and tools: whether they can have an effect, and whether a tool reads the id of its call.

A tool's methods are read, and none of them is run.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator
from types import CodeType
from typing import Any

from mcp_bridge._integrations.amplifier.events import AGENT_EVENTS

# The argument with the id of the call, for tools that return it with their results.
CALL_ID = "_tool_call_id"
# The capabilities that start and resume agents. Applications of Amplifier register them, modules rarely do.
_SPAWN = "session.spawn"
_RESUME = "session.resume"
_MOST_METHODS_DEEP = 5
_HINT = "Remove it from the plan"


def describe_unemitted_events(events: Collection[str]) -> str:
    """Return why hooks of these events have no effect. Empty if they may have one."""
    if not events or not AGENT_EVENTS.issuperset(events):
        return ""
    names = ", ".join(f"'{event}'" for event in sorted(events))
    return f"it has no effect, because its hooks only receive {names}, and the plan has no agent that runs. {_HINT}"


def describe_missing_capability(tool: Any, get_capability: Callable[[str], Any]) -> str:
    """Return why every call to a tool must fail. Empty if calls may succeed."""
    # This test is fast, and excludes most tools.
    may_start_agents = _has_constant(_list_members(type(tool)), _SPAWN, beside="get_capability")
    if not may_start_agents or get_capability(_SPAWN) is not None or not _needs_agents(type(tool), "execute"):
        return ""
    return (
        f"it can only start agents (the capability '{_SPAWN}'), and the plan has none that runs: its session has no "
        "orchestrator, and no module registers the capability. Add them, or remove the tool from the plan"
    )


def _needs_agents(tool_class: type, name: str, depth: int = 0) -> bool:
    """Return whether a method can succeed only if it starts or resumes an agent.

    That is so if it requests the capability itself, as in tool-task, or if it returns only failures and the results of
    methods for which it is so, as in tool-delegate. tool-skills starts an agent for some of its calls only.
    """
    method = getattr(tool_class, name, None)
    if any(_has_constant([method], capability, beside="get_capability") for capability in (_SPAWN, _RESUME)):
        return True
    results = _list_results(method) if depth < _MOST_METHODS_DEEP else []
    helpers = [result for result in results if not _is_failure(result)]
    return bool(helpers) and all(
        isinstance(result, ast.Call)
        and isinstance(result.func, ast.Attribute)
        and isinstance(result.func.value, ast.Name)
        and result.func.value.id == "self"
        and _needs_agents(tool_class, result.func.attr, depth + 1)
        for result in helpers
    )


def _list_results(method: Any) -> list[ast.expr]:
    """Return the expressions that a method returns. Empty if it may also return nothing, or its source is unknown."""
    try:
        [function] = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(method)))).body
    except (OSError, TypeError, ValueError, SyntaxError):
        return []
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    if not isinstance(function.body[-1], ast.Return | ast.Raise):
        return []
    results = []
    pending: list[ast.AST] = [*function.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return):
            value = node.value or ast.Constant(None)
            results.append(value.value if isinstance(value, ast.Await) else value)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending += ast.iter_child_nodes(node)
    return results


def _is_failure(result: ast.expr) -> bool:
    """Return whether an expression is a result with `success=False`, as a call or as a dict."""
    fields: list[tuple[Any, Any]] = []
    if isinstance(result, ast.Call):
        fields = [(keyword.arg, keyword.value) for keyword in result.keywords]
    elif isinstance(result, ast.Dict):
        fields = [(getattr(key, "value", None), value) for key, value in zip(result.keys, result.values, strict=True)]
    return any(name == "success" and getattr(value, "value", None) is False for name, value in fields)


def read_schema(tool: Any) -> Any:
    """Return the `input_schema` of a tool, else its `get_schema()`, else None."""
    schema = getattr(tool, "input_schema", None)
    if schema is None and callable(getattr(tool, "get_schema", None)):
        schema = tool.get_schema()
    return schema


def reads_call_id(tool: Any) -> bool:
    """Return whether the code of a tool reads the id of the call from its arguments."""
    return _has_constant(_list_members(type(tool)), CALL_ID)


def _list_members(tool_class: type) -> list[Any]:
    return [member for base in inspect.getmro(tool_class) for member in vars(base).values()]


def _has_constant(members: Iterable[Any], text: str, beside: str = "") -> bool:
    """Return whether one of these functions has this text, and uses the name `beside`."""
    return any(text in code.co_consts and (not beside or beside in code.co_names) for code in _iter_code(members))


def _iter_code(members: Iterable[Any]) -> Iterator[CodeType]:
    pending: list[Any] = [getattr(inspect.unwrap(member), "__code__", None) for member in members if callable(member)]
    while pending:
        code = pending.pop()
        if isinstance(code, CodeType):
            yield code
            pending.extend(code.co_consts)
