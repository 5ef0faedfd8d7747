"""A cancellation of the caller passes through a running module, and is no failure of the module."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge.amplifier import HookResult, ModuleCoordinator, ModuleLoader
from mcp_bridge.amplifier.testing import MockContextManager, TestCoordinator
from tests.kits.amplifier.amplifier_modules import write_files
from tests.kits.loops import BOTH_LOOPS

HANGS = """
import anyio
async def mount(coordinator, config):
    if config: await anyio.sleep_forever()
async def on_session_ready(coordinator):
    await anyio.sleep_forever()
"""


async def wait_forever(*args: Any) -> None:
    """Wait without an end, whatever the arguments are."""
    await anyio.sleep_forever()


class Hanging:
    """A resolver without a result."""

    resolve = staticmethod(wait_forever)


async def collect_from_contributor(coordinator: ModuleCoordinator, folder: Path) -> None:
    """Collect from a hanging contributor."""
    coordinator.register_contributor("x", "a", wait_forever)
    await coordinator.collect_contributions("x")


async def cancel_session(coordinator: ModuleCoordinator, folder: Path) -> None:
    """Cancel with a hanging callback."""
    coordinator.cancellation.on_cancel(wait_forever)
    await coordinator.request_cancel()


async def show_message(coordinator: TestCoordinator, folder: Path) -> None:
    """Show a message on a hanging display."""
    coordinator.display.show_message = wait_forever  # type: ignore[assignment,method-assign]
    await coordinator.process_hook_result(HookResult(user_message="hi"), "x")


async def store_message(coordinator: ModuleCoordinator, folder: Path) -> None:
    """Store a message in a hanging context."""
    context = MockContextManager()
    context.add_message = wait_forever  # type: ignore[method-assign]
    coordinator.mount("context", context)
    result = HookResult(action="inject_context", context_injection="text")
    await coordinator.process_hook_result(result, "x")


async def collect_data(coordinator: ModuleCoordinator, folder: Path) -> None:
    """Collect from a hanging handler."""
    coordinator.hooks.register("x", wait_forever)
    await coordinator.hooks.emit_and_collect("x", timeout=None)


async def mount_module(coordinator: ModuleCoordinator, folder: Path) -> None:
    """Mount a hanging module."""
    await ModuleLoader(coordinator, [folder]).load("hanging_module", {"hang": True})


async def make_ready(coordinator: ModuleCoordinator, folder: Path) -> None:
    """Make a hanging module ready."""
    loader = ModuleLoader(coordinator, [folder])
    await loader.load("hanging_module")
    await loader.run_session_ready(coordinator)


async def resolve_module(coordinator: ModuleCoordinator, folder: Path) -> None:
    """Resolve with a hanging resolver."""
    coordinator.mount("module-source-resolver", Hanging())
    await ModuleLoader(coordinator).load("mine")


WAYS = [
    collect_from_contributor,
    cancel_session,
    show_message,
    store_message,
    collect_data,
    mount_module,
    make_ready,
    resolve_module,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@BOTH_LOOPS
async def test_a_cancellation_passes_through_a_module_that_hangs(
    way: Callable[[Any, Path], Awaitable[None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    write_files(tmp_path, {"hanging_module.py": HANGS})
    has_passed = False
    with caplog.at_level(logging.WARNING), anyio.move_on_after(0.1) as scope:
        await way(TestCoordinator(), tmp_path)
        has_passed = True
    assert (scope.cancelled_caught, has_passed, caplog.messages) == (True, False, [])


async def test_a_module_may_be_mounted_without_a_coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    write_files(tmp_path, {"mounted_on_nothing.py": "def mount(coordinator, config): return coordinator"})
    # The module returns its coordinator, which is None.
    assert await ModuleLoader(search_paths=[tmp_path]).load("mounted_on_nothing") is None
