"""The base of the contract suites: it mounts the module for each rule, and has the rules for modules of all types."""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, NoReturn
from unittest import SkipTest
from uuid import uuid4

import anyio
from anyio.abc import TaskGroup

from mcp_bridge._contracts.handlers import is_async
from mcp_bridge._integrations.amplifier.coordinator import NAMED_POINTS
from mcp_bridge._integrations.amplifier.doubles import MockApprovals, MockDisplay, TestCoordinator
from mcp_bridge._integrations.amplifier.session import accept_mount_result
from mcp_bridge._runtime.cancellation import has_cancellation
from mcp_bridge._runtime.signatures import get_signature
from mcp_bridge._runtime.third_party import describe_error, is_own_cancellation, resolve_awaitable

MOUNTING_RULE = "it_mounts_what_its_type_requires"
"""A module that breaks this rule cannot follow any other, so it is checked first."""
_PREFIX = "test_"


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """Whether a module follows a rule, and the reason if it does not, or if the rule is skipped."""

    state: Literal["passed", "failed", "skipped"]
    reason: str = ""


class ModuleBehaviorTests:
    """Tests of a module. Every rule of the contract is one test with a new coordinator.

    Attributes:
        module: The Python module under test, or anything else with `mount(coordinator, config)`.
        config: The configuration for `mount`.
        host: The host of the coordinator: this package, or amplifier-core (asyncio only).
        timeout: The timeout of a test, in seconds.
    """

    # If pytest runs these tests, it is imported already. Without pytest, `check_rule` runs them, and needs no marks.
    pytestmark: ClassVar[Any] = [sys.modules["pytest"].mark.anyio] if "pytest" in sys.modules else []
    mount_point: ClassVar[str]

    module: Any = None
    config: Mapping[str, Any] = {}
    host: Literal["native", "core"] = "native"
    timeout: float = 10.0

    def create_coordinator(self) -> Any:
        """Return a coordinator of this host with a simulated user, whose choice is set as `approvals.answer`."""
        if self.host == "native":
            return TestCoordinator(session_id=uuid4().hex)
        from mcp_bridge._integrations.amplifier.core import CoreCoordinator, CoreHooks

        plan = {"session": {"orchestrator": "test-orchestrator", "context": "test-context"}}
        coordinator: Any = CoreCoordinator(plan, CoreHooks())
        coordinator.approvals = coordinator.approval_system = MockApprovals()
        coordinator.display_system = MockDisplay()
        return coordinator

    @asynccontextmanager
    async def mount_module(self, **config: Any) -> AsyncIterator[Any]:
        """Mount the module, with further keys of its configuration, and yield the coordinator."""
        coordinator = self.create_coordinator()
        # The module is cleaned up whatever fails: its `mount`, its `on_session_ready`, the test, or another cleanup. At
        # the timeout of the rule, the function that `mount` returned is called, but can no longer wait.
        with limit_time(self.timeout):
            async with AsyncExitStack() as cleanups:
                cleanups.push_async_callback(coordinator.cleanup)
                result = await resolve_awaitable(self.module.mount(coordinator, {**self.config, **config}))
                # A function is a cleanup. It is called here, so that its errors are not only logged.
                cleanups.push_async_callback(call_cleanup, result)
                if not inspect.isroutine(result):
                    accept_mount_result(coordinator, result)
                on_ready = getattr(self.module, "on_session_ready", None)
                if on_ready is not None:
                    await resolve_awaitable(on_ready(coordinator))
                yield coordinator

    @asynccontextmanager
    async def open_module(self, **config: Any) -> AsyncIterator[Any]:
        """Mount the module and yield the mounted object, or the first of several."""
        async with self.mount_module(**config) as coordinator:
            yield next(iter(self.list_mounted(coordinator).values()))

    def list_mounted(self, coordinator: Any) -> dict[str, Any]:
        """Return what is mounted at the mount point by name. Raises AssertionError if there is nothing."""
        modules = find_modules_at(coordinator, self.mount_point)
        require(modules, f"`mount` mounted nothing at '{self.mount_point}'")
        return modules

    async def test_mount_is_an_async_function_of_a_coordinator_and_a_configuration(self) -> None:
        require(is_async(self.module.mount), "`mount` is not an `async def`")
        require_parameters(self.module.mount, None, {})

    async def test_it_mounts_what_its_type_requires(self) -> None:
        async with self.mount_module() as coordinator:
            self.list_mounted(coordinator)

    async def test_two_sessions_can_mount_it_at_once_with_the_same_result(self) -> None:
        async with self.mount_module() as first, self.mount_module() as second:
            names = sorted(self.list_mounted(first))
            second_names = sorted(find_modules_at(second, self.mount_point))
        require(
            names == second_names,
            f"the first session has {', '.join(names)}, the second {', '.join(second_names) or 'nothing'}",
        )

    async def test_its_cleanups_raise_nothing(self) -> None:
        coordinator = self.create_coordinator()
        with limit_time(self.timeout):
            async with AsyncExitStack() as cleanups:
                coordinator.register_cleanup = partial(cleanups.push_async_callback, call_cleanup)
                result = await resolve_awaitable(self.module.mount(coordinator, {**self.config}))
                cleanups.push_async_callback(call_cleanup, result)


async def call_cleanup(cleanup: Any) -> None:
    """Call the result of `mount` or a registered cleanup, if it is a function."""
    if inspect.isroutine(cleanup):
        await resolve_awaitable(cleanup())


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Raise AssertionError if the block takes longer. A TimeoutError is then always one of the module."""
    with anyio.move_on_after(seconds) as scope:
        yield
    require(not scope.cancelled_caught, f"it took more than {seconds:g} seconds")


@asynccontextmanager
async def open_task_group() -> AsyncIterator[TaskGroup]:
    """Open a task group that raises the first error itself, because the text of an ExceptionGroup does not name it."""
    error: BaseException | None = None
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        if has_cancellation(group):
            raise
        error = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
    if error is not None:
        raise error


def find_modules_at(coordinator: Any, point: str) -> dict[str, Any]:
    """Return what is mounted at a mount point by name. At `hooks`, these are the registrations of handlers."""
    if point == "hooks":
        handlers = {}
        for event, registrations in coordinator.hooks.list_registrations().items():
            for registration in registrations:
                handlers[f"{registration.name} on {event}"] = (event, registration.handler)
        return handlers
    modules = coordinator.mount_points[point]
    if point in NAMED_POINTS:
        return dict(modules)
    return {} if modules is None else {point: modules}


def require(condition: object, problem: str) -> None:
    """Raise AssertionError with the problem unless the condition holds."""
    if not condition:
        raise AssertionError(problem)


def skip_rule(reason: str) -> NoReturn:
    """Skip a rule that cannot be tested on this module."""
    raise SkipTest(reason)


def require_parameters(function: Any, *arguments: Any) -> None:
    """Raise AssertionError unless a function can be called with these arguments."""
    signature = get_signature(function)
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise AssertionError(f"its parameters are {signature}: {error}") from error


def require_async_method(subject: Any, name: str, *parameters: str) -> None:
    """Raise AssertionError unless an object has an `async def` of this name with these parameters."""
    method = getattr(subject, name, None)
    require(callable(method), f"there is no method `{name}`")
    require(inspect.iscoroutinefunction(method), f"`{name}` is not an `async def`")
    signature = get_signature(method).parameters  # type: ignore[arg-type]
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.values())
    missing = [parameter for parameter in parameters if parameter not in signature and not takes_any]
    require(not missing, f"`{name}` does not take {', '.join(missing)}")


def list_rules(suite: type[ModuleBehaviorTests]) -> list[str]:
    """Return the rules of a suite: MOUNTING_RULE, then the others by name."""
    rules = sorted(name.removeprefix(_PREFIX) for name in dir(suite) if name.startswith(_PREFIX))
    rules.remove(MOUNTING_RULE)
    return [MOUNTING_RULE, *rules]


async def check_rule(suite: type[ModuleBehaviorTests], rule: str, module: Any, **attributes: Any) -> RuleOutcome:
    """Run one rule of a suite on a module, and return the outcome. An error of the module is a failed rule."""
    tests = suite()
    vars(tests).update(attributes, module=module)
    try:
        await getattr(tests, f"{_PREFIX}{rule}")()
    except SkipTest as skipped:
        return RuleOutcome("skipped", str(skipped))
    except AssertionError as error:
        return RuleOutcome("failed", str(error))
    except BaseException as error:
        if is_own_cancellation(error):
            raise
        return RuleOutcome("failed", describe_error(error))
    return RuleOutcome("passed")


async def find_violations(suite: type[ModuleBehaviorTests], module: Any, **attributes: Any) -> dict[str, str]:
    """Run a suite on a module, and return the rules that it breaks with the reasons.

    Args:
        suite: The suite of the module's type.
        module: The Python module, or anything else with `mount(coordinator, config)`.
        attributes: Values for attributes of the suite, such as `config`.
    """
    violations = {}
    for rule in list_rules(suite):
        outcome = await check_rule(suite, rule, module, **attributes)
        if outcome.state == "failed":
            violations[rule] = outcome.reason
    return violations
