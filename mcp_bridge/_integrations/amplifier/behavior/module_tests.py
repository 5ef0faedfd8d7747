"""What the contract suites have in common: they mount the module under test for each rule, on either host."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Literal, NoReturn

import anyio
import pytest

from mcp_bridge._integrations.amplifier.doubles import MockApprovals, MockDisplay, TestCoordinator
from mcp_bridge._runtime.third_party import describe_error, resolve_awaitable


class ModuleBehaviorTests:
    """Tests of a module. Every rule of the contract is one test, on a coordinator of its own.

    Attributes:
        module: The Python module under test, or anything else with `mount(coordinator, config)`.
        config: What `mount` receives.
        host: The coordinator that it is mounted on: that of this package, or that of amplifier-core (asyncio only).
        timeout: Seconds that a test may take.
    """

    pytestmark: ClassVar[Any] = pytest.mark.anyio
    mount_point: ClassVar[str]

    module: Any = None
    config: Mapping[str, Any] = {}
    host: Literal["native", "core"] = "native"
    timeout: float = 10.0

    def create_coordinator(self) -> Any:
        """Return a coordinator whose `approvals.answer` is what the user chooses."""
        if self.host == "native":
            return TestCoordinator()
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
        with anyio.fail_after(self.timeout):
            cleanup = await resolve_awaitable(self.module.mount(coordinator, {**self.config, **config}))
            try:
                yield coordinator
            finally:
                if inspect.isroutine(cleanup):
                    await resolve_awaitable(cleanup())
                await coordinator.cleanup()

    @asynccontextmanager
    async def open_module(self, **config: Any) -> AsyncIterator[Any]:
        """Mount the module and yield what it has mounted."""
        async with self.mount_module(**config) as coordinator:
            yield get_mounted(coordinator, self.mount_point)


def get_mounted(coordinator: Any, point: str) -> Any:
    """Return the module at a mount point, or the first of several. Raises AssertionError if there is none."""
    mounted = coordinator.mount_points[point]
    mounted = next(iter(mounted.values()), None) if point == "providers" else mounted
    require(mounted is not None, f"`mount` mounted nothing at '{point}'")
    return mounted


def require(condition: object, problem: str) -> None:
    """Raise AssertionError with the problem unless the condition holds."""
    if not condition:
        raise AssertionError(problem)


def skip_rule(reason: str) -> NoReturn:
    """Skip a rule that cannot be tested on this module."""
    pytest.skip(reason)


def require_async_method(subject: Any, name: str, *parameters: str) -> None:
    """Require an `async def` that takes these parameters. Raises AssertionError."""
    method = getattr(subject, name, None)
    require(callable(method), f"there is no method `{name}`")
    require(inspect.iscoroutinefunction(method), f"`{name}` is not an `async def`")
    given = inspect.signature(method).parameters  # type: ignore[arg-type]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in given.values())
    missing = [each for each in parameters if each not in given and not takes_any]
    require(not missing, f"`{name}` does not take {', '.join(missing)}")


async def find_violations(suite: type[ModuleBehaviorTests], module: Any, **attributes: Any) -> dict[str, str]:
    """Run a suite on a module, and return the rules that it breaks with the reasons.

    Args:
        suite: The suite of the module's type.
        module: The Python module, or anything else with `mount(coordinator, config)`.
        attributes: Those of the suite, such as `config`.
    """
    found: dict[str, str] = {}
    for name in sorted(name for name in dir(suite) if name.startswith("test_")):
        tests = suite()
        vars(tests).update(attributes, module=module)
        try:
            await getattr(tests, name)()
        except pytest.skip.Exception:
            continue
        except TimeoutError:
            found[name.removeprefix("test_")] = f"it took more than {tests.timeout:g} seconds"
        except Exception as error:
            is_rule = isinstance(error, AssertionError)
            found[name.removeprefix("test_")] = str(error) if is_rule else describe_error(error)
    return found
