"""Finds out whether hooks and tools can have an effect in a plan, and whether a tool reads the id of its call.

The code of a tool's methods is read, and none of it is run.
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
SPAWN = "session.spawn"
RESUME = "session.resume"
# How many calls deep methods are followed. The limit ends the search in recursive methods.
_MAX_DEPTH = 5
_HINT = "Remove it from the plan"


def describe_unemitted_events(events: Collection[str]) -> str:
    """Return why hooks of these events have no effect; empty if they may have one."""
    if not events or not AGENT_EVENTS.issuperset(events):
        return ""
    names = ", ".join(f"'{event}'" for event in sorted(events))
    return f"it has no effect, because its hooks only receive {names}, and the plan has no agent that runs. {_HINT}"


def describe_missing_capability(tool: Any, get_capability: Callable[[str], Any]) -> str:
    """Return why every call to a tool must fail; empty if calls may succeed."""
    # This test is fast, and excludes most tools.
    may_start_agents = _uses_capability(_list_members(type(tool)), SPAWN)
    if not may_start_agents or get_capability(SPAWN) is not None or not _needs_agents(type(tool), "execute"):
        return ""
    return (
        f"it can only start agents (the capability '{SPAWN}'), and the plan has none that runs: its session has no "
        "orchestrator, and no module registers the capability. Add them, or remove the tool from the plan"
    )


def _needs_agents(tool_class: type, name: str, depth: int = 0) -> bool:
    """Return whether a method can succeed only if it starts or resumes an agent.

    Such a method requests the capability itself, as in tool-task, or all results that it returns are failures or come
    from methods that need agents, as in tool-delegate. tool-skills does not need agents, because it starts an agent for
    some of its calls only.
    """
    method = getattr(tool_class, name, None)
    if _uses_capability([method], SPAWN) or _uses_capability([method], RESUME):
        return True
    if depth >= _MAX_DEPTH:
        return False
    successes = [result for result in _list_results(method) if not _is_failure(result)]
    for result in successes:
        helper = _get_called_method(result)
        if helper is None or not _needs_agents(tool_class, helper, depth + 1):
            return False
    return bool(successes)


def _get_called_method(expression: ast.expr) -> str | None:
    """Return the name of the method that an expression such as `self.run(data)` calls, or None."""
    if not isinstance(expression, ast.Call) or not isinstance(expression.func, ast.Attribute):
        return None
    owner = expression.func.value
    is_self = isinstance(owner, ast.Name) and owner.id == "self"
    return expression.func.attr if is_self else None


def _list_results(method: Any) -> list[ast.expr]:
    """Return the expressions that a method returns; empty if it may also return nothing, or its source is unknown."""
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
    return any(CALL_ID in code.co_consts for code in _iter_code(_list_members(type(tool))))


def _uses_capability(functions: Iterable[Any], capability: str) -> bool:
    """Return whether one of these functions has the name of the capability, and calls `get_capability`."""
    return any(capability in code.co_consts and "get_capability" in code.co_names for code in _iter_code(functions))


def _list_members(tool_class: type) -> list[Any]:
    members: list[Any] = []
    for base in inspect.getmro(tool_class):
        members += vars(base).values()
    return members


def _iter_code(members: Iterable[Any]) -> Iterator[CodeType]:
    """Yield the code of the functions among these members, and of the functions inside them."""
    pending: list[Any] = [getattr(inspect.unwrap(member), "__code__", None) for member in members if callable(member)]
    while pending:
        code = pending.pop()
        if isinstance(code, CodeType):
            yield code
            pending.extend(code.co_consts)
