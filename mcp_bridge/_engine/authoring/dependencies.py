"""Resolves dependencies: parameters with the mark `Depends`. A function gets its plan when it is decorated.

    def get_settings(): ...
    def get_client(settings: Annotated[Settings, Depends(get_settings)]): ...

    @tool
    def search(query: str, client: Annotated[Client, Depends(get_client)]): ...

The plan of `search` has a step for each function, the innermost first: `get_settings`, then `get_client`, with the
index of the step whose value is its `settings`. A function that several others need has one step, so it runs once per
call. A call runs the steps in order, opens those that yield in an exit stack, runs the function with the values, and
closes the stack in reverse order. The errors of a plan (cycles, parameters without a value, an async dependency of a
synchronous function) are raised when the function is decorated.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from mcp_bridge._contracts.handlers import is_async
from mcp_bridge._contracts.parameters import Depends
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._json_schema.callables import (
    find_context_parameter,
    get_callable_name,
    read_annotation,
    read_signature,
)
from mcp_bridge._runtime.signatures import get_signature

Call = Callable[[Any, Mapping[str, Any]], Any]
"""Calls a function with the arguments of the client, and with the values of its other parameters by name."""
_KEYWORD_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
"""The kinds of parameters that can be passed by keyword, as a plan does."""


class DependencyStep(NamedTuple):
    """One dependency.

    Attributes:
        function: The function of the user. If that one yields its value, this one returns a context manager.
        arguments: The index of the step for each parameter.
        context: The parameter for the call context, if there is one.
        is_async: Whether the function is asynchronous.
        is_generator: Whether the function of the user yields its value.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, int]
    context: str | None
    is_async: bool
    is_generator: bool

    def call_function(self, values: list[Any], ctx: RunningCall | None) -> Any:
        """Call the function with the values of earlier steps."""
        arguments: dict[str, Any] = {name: values[index] for name, index in self.arguments.items()}
        if self.context is not None:
            arguments[self.context] = ctx
        return self.function(**arguments)


class DependencyPlan:
    """The dependencies of a function in the order of their resolution.

    `parameters` has the index of the step for each parameter of the function itself.
    """

    __slots__ = ("parameters", "steps")

    def __init__(self) -> None:
        self.steps: list[DependencyStep] = []
        self.parameters: dict[str, int] = {}

    @property
    def takes_context(self) -> bool:
        """Whether a dependency takes the call context."""
        return any(step.context is not None for step in self.steps)

    async def resolve_async(self, stack: AsyncExitStack, ctx: RunningCall | None) -> dict[str, Any]:
        """Run the steps, and return the values of the parameters. `stack` closes the context managers of the steps."""
        values: list[Any] = []
        for step in self.steps:
            value = step.call_function(values, ctx)
            if step.is_generator and step.is_async:
                value = await stack.enter_async_context(value)
            elif step.is_generator:
                value = stack.enter_context(value)
            elif step.is_async:
                value = await value
            values.append(value)
        return {name: values[index] for name, index in self.parameters.items()}

    def resolve_values(self, stack: ExitStack, ctx: RunningCall | None) -> dict[str, Any]:
        """Run the steps of a plan without async ones, like `resolve_async`."""
        values: list[Any] = []
        for step in self.steps:
            value = step.call_function(values, ctx)
            if step.is_generator:
                value = stack.enter_context(value)
            values.append(value)
        return {name: values[index] for name, index in self.parameters.items()}


def find_dependencies(function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return the functions in the `Depends` marks of a function, by the names of the marked parameters."""
    try:
        parameters = get_signature(function).parameters.values()
    except (TypeError, ValueError):
        # Some builtins have no signature.
        return {}
    dependencies = {}
    for item in parameters:
        if isinstance(item.default, Depends):
            raise TypeError(
                f"{get_callable_name(function)}: write parameter '{item.name}' as Annotated[..., Depends(...)], "
                "without a default"
            )
        try:
            annotation = read_annotation(function, item)
        except TypeError:
            # `infer_signature` reports annotations that cannot be read.
            continue
        if get_origin(annotation) is Annotated:
            marks = [mark for mark in get_args(annotation)[1:] if isinstance(mark, Depends)]
            if marks:
                dependencies[item.name] = marks[0].function
    return dependencies


def plan_dependencies(function: Callable[..., Any]) -> DependencyPlan | None:
    """Return the plan for a function; None if it has no dependencies.

    Raises TypeError for invalid dependencies.
    """
    dependencies = find_dependencies(function)
    if not dependencies:
        return None
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{get_callable_name(function)} has dependencies, so it cannot yield. Return a list")
    plan = DependencyPlan()
    positions: dict[Callable[..., Any], int] = {}
    for name, dependency in dependencies.items():
        plan.parameters[name] = _add_step(plan, positions, dependency, (function,))
    if not is_async(function) and any(step.is_async for step in plan.steps):
        raise TypeError(f"{get_callable_name(function)} has an async dependency. Write it with async def")
    return plan


def _add_step(
    plan: DependencyPlan,
    positions: dict[Callable[..., Any], int],
    function: Callable[..., Any],
    path: tuple[Callable[..., Any], ...],
) -> int:
    """Add the steps for a dependency and for its own dependencies, and return the index of its step.

    `positions` has the existing steps, and `path` the functions on the way to this dependency.
    """
    if function in positions:
        return positions[function]
    if function in path:
        cycle = [*path[path.index(function) :], function]
        names = " -> ".join(map(get_callable_name, cycle))
        raise TypeError(f"dependencies need each other: {names}")
    dependencies = find_dependencies(function)
    arguments = {}
    for name, dependency in dependencies.items():
        arguments[name] = _add_step(plan, positions, dependency, (*path, function))
    context = find_context_parameter(function)
    for item in read_signature(function).parameters.values():
        if item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD) or item.default is not item.empty:
            continue
        is_filled = item.name in arguments or item.name == context
        if not is_filled or item.kind not in _KEYWORD_KINDS:
            raise TypeError(
                f"{get_callable_name(function)} is a dependency, and nothing fills in its parameter '{item.name}'. "
                "Give it a default, or annotate it with Depends or CallContext"
            )
    plan.steps.append(_make_step(function, arguments, context))
    positions[function] = len(plan.steps) - 1
    return positions[function]


def _make_step(function: Callable[..., Any], arguments: Mapping[str, int], context: str | None) -> DependencyStep:
    if inspect.isasyncgenfunction(function):
        manager = asynccontextmanager(function)
        return DependencyStep(manager, arguments, context, is_async=True, is_generator=True)
    if inspect.isgeneratorfunction(function):
        return DependencyStep(contextmanager(function), arguments, context, is_async=False, is_generator=True)
    return DependencyStep(function, arguments, context, is_async=is_async(function), is_generator=False)


def make_injecting_handler(
    function: Callable[..., Any], plan: DependencyPlan, call: Call, context: str | None
) -> Callable[..., Any]:
    """Make a handler to resolve the dependencies, run `call` with their values, and close them.

    `context` is the function's own parameter for the context. The handler takes a context only if the function or a
    dependency does, because for the pipeline, every handler with a context may ask the user.
    """
    # A generator dependency that catches the error of the call without raising it again suppresses it, as every context
    # manager does. The call would then have no result.
    problem = f"a dependency of {get_callable_name(function)} caught the error of the call without raising it again"

    def add_context(values: dict[str, Any], ctx: RunningCall | None) -> dict[str, Any]:
        return values if context is None else {**values, context: ctx}

    async def inject_async(data: Any, ctx: RunningCall | None = None) -> Any:
        async with AsyncExitStack() as stack:
            values = await plan.resolve_async(stack, ctx)
            return await call(data, add_context(values, ctx))
        raise RuntimeError(problem)

    def inject_values(data: Any, ctx: RunningCall | None = None) -> Any:
        with ExitStack() as stack:
            return call(data, add_context(plan.resolve_values(stack, ctx), ctx))
        raise RuntimeError(problem)

    if context is not None or plan.takes_context:
        return inject_async if is_async(function) else inject_values

    async def inject_async_without_context(data: Any) -> Any:
        return await inject_async(data)

    def inject_without_context(data: Any) -> Any:
        return inject_values(data)

    return inject_async_without_context if is_async(function) else inject_without_context
