"""What every coordinator does alike, also one of amplifier-core: mounting, cleaning up, asking who contributes."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import anyio

from mcp_bridge.amplifier.approvals import process
from mcp_bridge.amplifier.events import CANCEL_REQUESTED
from mcp_bridge.amplifier.hooks import HookRegistry
from mcp_bridge.amplifier.models import HookResult
from mcp_bridge.amplifier.mounts import AGENT, NAMED, SESSION, SINGLE, Done, point_of
from mcp_bridge.runtime.third_party import passes, settled

logger = logging.getLogger("mcp_bridge.amplifier")

Cleanup = Callable[[], Any]
CLEANUP = 10.0
"""Seconds that one cleanup may take."""


class Guarded:
    """Mount points that nobody takes silently, and modules whose failures stay their own.

    Whoever inherits has `mount_points`, `hooks`, `cancellation`, `approval_system`, `display_system`, and the cleanups.
    """

    hooks: HookRegistry
    approval_system: Any
    display_system: Any
    cancellation: Any
    mount_points: dict[str, Any]
    _cleanups: list[Cleanup]
    _wanted: dict[str, Callable[[Any], None]]

    def mount(self, mount_point: str, module: Any, name: str | None = None) -> Done:
        """Mount a module, at once; the answer may be awaited.

        Providers and tools are mounted by name, that of the module where none is given. Raises ValueError for an
        unknown mount point or a missing name, MountCollision (a ValueError) where another module has the name.
        """
        point, name = point_of(mount_point, name)
        if point in SINGLE:
            if self.mount_points[point] is not None and self.mount_points[point] is not module:
                logger.warning("mount at '%s': another module takes the place of the one that was there", point)
            self.mount_points[point] = module
            return Done()
        mounted = self._named(point)
        known = name or getattr(module, "name", None)
        if not known:
            raise ValueError(f"mount at '{point}': the module has no name. Give mount(..., name=...)")
        mounted[known] = module
        return Done()

    def unmount(self, mount_point: str, name: str | None = None) -> Done:
        """Take a module away, at once; one that is not there is fine. Raises ValueError for an unknown mount point."""
        point, name = point_of(mount_point, name)
        if point in SINGLE:
            self.mount_points[point] = None
        elif name is not None and name in self._named(point):
            del self.mount_points[point][name]
        return Done()

    def get(self, mount_point: str, name: str | None = None) -> Any:
        """What is mounted: the one thing, everything by name, or with a name one of these; None where there is none.

        `session` has the orchestrator and the context by name. Raises ValueError for an unknown mount point.
        """
        if mount_point == SESSION and name is None:
            return {point: self.mount_points[point] for point in AGENT if self.mount_points[point] is not None}
        point, name = point_of(mount_point, name)
        if point in SINGLE or point == "hooks":
            return self.mount_points[point]
        mounted = self._named(point)
        return mounted if name is None else mounted.get(name)

    get_mounted = get

    def on_capability(self, name: str, callback: Callable[[Any], None]) -> None:
        """Have whatever modules register under a name, also before and more than once, given to a callback."""
        self._wanted[name] = callback
        if (known := self.get_capability(name)) is not None:
            callback(known)

    async def collect_contributions(self, channel: str) -> list[Any]:
        """What all contribute to a channel, in order; None is nothing, and one that fails is left out."""
        found = []
        for name, callback in self.contributors(channel):
            try:
                given = await settled(callback())
            except BaseException as error:
                if passes(error):
                    raise
                logger.exception("the contribution of %r to %r is left out", name, channel)
                continue
            if given is not None:
                found.append(given)
        return found

    @abstractmethod
    def get_capability(self, name: str) -> Any:
        """What a module has registered, or None."""

    @abstractmethod
    def contributors(self, channel: str) -> Iterable[tuple[str, Callable[[], Any]]]:
        """Who contributes to a channel: names, and what they are asked by."""

    def register_cleanup(self, cleanup: Any) -> None:
        """Have this called at the end; what cannot be called is nothing to clean up."""
        if callable(cleanup):
            self._cleanups.append(cleanup)

    async def cleanup(self, timeout: float = CLEANUP) -> None:
        """Call every cleanup, the last one first, each with `timeout` seconds, also when the caller is being cancelled.

        What one raises is logged and keeps no other from its turn.
        """
        while self._cleanups:
            cleanup = self._cleanups.pop()
            with anyio.move_on_after(timeout, shield=True) as scope:
                await _cleaned(cleanup)
            if scope.cancelled_caught:
                logger.error("a module's cleanup took longer than %s seconds and was given up", timeout)

    async def process_hook_result(self, result: Any, event: str, hook_name: str = "unknown") -> HookResult:
        """Carry out what hooks have decided: remember what is for the model, show what is for the user, ask.

        The answer is `deny` where a person said no, else the result.
        """
        return await process(self, result, event, hook_name)

    async def request_cancel(self, immediate: bool = False) -> None:
        """Tell the session's modules to stop."""
        token = self.cancellation
        if token.request_immediate() if immediate else token.request_graceful():
            await self.hooks.emit(CANCEL_REQUESTED, {"level": token.state, "running_tools": token.running_tool_names})
            try:
                await token.trigger_callbacks()
            except BaseException as error:  # of amplifier-core's token, which does not keep every one
                if passes(error):
                    raise
                logger.exception("a callback of a cancelled session failed")

    def _named(self, point: str) -> dict[str, Any]:
        if point not in NAMED:
            hint = " Register with coordinator.hooks.register instead." if point == "hooks" else ""
            known = ", ".join((*SINGLE, *NAMED))
            raise ValueError(f"Unknown mount point: {point}.{hint} Known: {known}")
        named: dict[str, Any] = self.mount_points[point]
        return named


async def _cleaned(cleanup: Cleanup) -> None:
    try:
        await settled(cleanup())
    except BaseException as error:
        if passes(error):
            raise
        logger.exception("a module's cleanup failed")
