"""ModuleCoordinator: modules are mounted on it, and find each other and the services of the host through it.

A session has one coordinator. Each module receives it in `mount(coordinator, config)` (the entry points of all
contracts). `BaseCoordinator` is the common base for the native host and amplifier-core.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, MutableMapping
from typing import Any, Protocol, Self, runtime_checkable
from uuid import uuid4

import anyio

from mcp_bridge._integrations.amplifier.cancellation import CancellationToken
from mcp_bridge._integrations.amplifier.errors import ApprovalTimeoutError, MountCollision, log_errors
from mcp_bridge._integrations.amplifier.events import (
    APPROVAL_DENIED,
    APPROVAL_GRANTED,
    APPROVAL_REQUIRED,
    CANCEL_REQUESTED,
)
from mcp_bridge._integrations.amplifier.hook_decisions import get_injections
from mcp_bridge._integrations.amplifier.hooks import HookRegistry
from mcp_bridge._integrations.amplifier.models import HookResult
from mcp_bridge._policies.approvals.decisions import ApprovalDecision
from mcp_bridge._policies.approvals.options import DEFAULT_OPTIONS, is_grant
from mcp_bridge._runtime.third_party import is_own_cancellation, resolve_awaitable

logger = logging.getLogger("mcp_bridge.amplifier")

Cleanup = Callable[[], Any]
# The timeout of one cleanup, in seconds.
CLEANUP_TIMEOUT = 10.0
# The contracts also mount these at `session`, under these names.
AGENT_POINTS = ("orchestrator", "context")
# These mount points hold one module.
SINGLE_POINTS = (*AGENT_POINTS, "module-source-resolver")
# These mount points hold modules by name.
NAMED_POINTS = ("providers", "tools")
_SESSION_POINT = "session"


class MountedModules(dict[str, Any]):
    """The modules of one mount point by name. Every change calls `on_change`, also when a module writes here directly.

    A module never replaces another silently: unmount the other first.
    """

    def __init__(self, point: str, on_change: Callable[[], None]) -> None:
        super().__init__()
        self._point = point
        self._changed = on_change

    def __setitem__(self, name: str, module: Any) -> None:
        """Mount a module. Raises MountCollision if another has the name."""
        name = str(name)
        if name in self and self[name] is not module:
            raise MountCollision(self._point, name)
        super().__setitem__(name, module)
        self._changed()

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._changed()

    def __ior__(self, modules: Any) -> Self:  # type: ignore[override,misc]
        self.update(modules)
        return self

    # Unlike those of dict, these change items through the methods above.
    clear = MutableMapping.clear
    pop = MutableMapping.pop
    popitem = MutableMapping.popitem
    setdefault = MutableMapping.setdefault
    update = MutableMapping.update


class MountPoints(dict[str, Any]):
    """The mount points of one coordinator. Assigning a dict to a named point mounts its items."""

    def __init__(self, hooks: Any, on_change: Callable[[], None]) -> None:
        named_points = {point: MountedModules(point, on_change) for point in NAMED_POINTS}
        super().__init__(dict.fromkeys(SINGLE_POINTS), hooks=hooks, **named_points)

    def __setitem__(self, point: str, value: Any) -> None:
        if point not in NAMED_POINTS:
            super().__setitem__(point, value)
        elif value is not self[point]:
            modules = dict(value)
            self[point].clear()
            self[point].update(modules)


class Completed:
    """The return value of `mount` and `unmount`. Both wait for nothing, so awaiting it is optional.

    The contracts await `coordinator.mount`, but mount a resolver without awaiting it (Module Source Protocol).
    """

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


class SessionObject:
    """The `session` of a coordinator for modules, with the attributes of both hosts.

    `config` is the plan with its orchestrator and context as mappings.
    """

    def __init__(self, config: dict[str, Any], session_id: str | None = None, parent_id: str | None = None) -> None:
        self.session_id = session_id or uuid4().hex
        self.parent_id = parent_id
        self.config = config
        self.get_coordinator: Callable[[], Any] = lambda: None

    @property
    def coordinator(self) -> Any:
        return self.get_coordinator()


@runtime_checkable
class EventApprover(Protocol):
    """An approval system that applies the time limit and the default of a hook itself."""

    async def approve_event(self, decision: HookResult, event: str) -> ApprovalDecision:
        """Ask the user about an event, as the hooks' combined decision requires."""


class BaseCoordinator:
    """The common base of the native coordinator and amplifier-core's.

    No module replaces another silently, and the failure of one never affects the others. A subclass provides
    the attributes below. With `on_collision`, `mount` reports a used name instead of raising MountCollision.
    """

    on_collision: Callable[[MountCollision], None] | None = None

    hooks: HookRegistry
    approval_system: Any
    display_system: Any
    cancellation: Any
    mount_points: dict[str, Any]
    channels: dict[str, Any]
    session_state: dict[str, Any]
    get_capability: Callable[[str], Any]
    to_dict: Callable[[], dict[str, Any]]
    _cleanups: list[Cleanup]
    _capability_callbacks: dict[str, Callable[[Any], None]]

    def mount(self, mount_point: str, module: Any, name: str | None = None) -> Completed:
        """Mount a module immediately; awaiting the result is optional.

        Providers and tools are mounted under `name`, by default the module's own. Raises ValueError for an unknown
        mount point or a missing name, MountCollision (a ValueError) if another module has the name.
        """
        point, name = _resolve_point(mount_point, name)
        if point in SINGLE_POINTS:
            if self.mount_points[point] is not None and self.mount_points[point] is not module:
                logger.warning("mount at '%s': the new module replaces the mounted one", point)
            self.mount_points[point] = module
            return Completed()
        modules = self._get_modules(point)
        key = name or getattr(module, "name", None)
        if not key:
            raise ValueError(f"mount at '{point}': the module has no name. Give mount(..., name=...)")
        try:
            # If the name is not text, `ToolHandler.build_entry` reports it.
            modules[str(key)] = module
        except MountCollision as collision:
            if self.on_collision is None:
                raise
            self.on_collision(collision)
        return Completed()

    def unmount(self, mount_point: str, name: str | None = None) -> Completed:
        """Unmount a module immediately, if it is mounted. Raises ValueError for an unknown mount point."""
        point, name = _resolve_point(mount_point, name)
        if point in SINGLE_POINTS:
            self.mount_points[point] = None
        elif name is not None and name in self._get_modules(point):
            del self.mount_points[point][name]
        return Completed()

    def get(self, mount_point: str, name: str | None = None) -> Any:
        """Return what is mounted at a mount point, or None.

        A mount point for a single module returns the module. Any other returns the module with `name`, or a dict of all
        its modules without `name`. `session` returns a dict of the orchestrator and the context. Raises ValueError for
        an unknown mount point.
        """
        if mount_point == _SESSION_POINT and name is None:
            return {point: self.mount_points[point] for point in AGENT_POINTS if self.mount_points[point] is not None}
        point, name = _resolve_point(mount_point, name)
        if point in SINGLE_POINTS or point == "hooks":
            return self.mount_points[point]
        modules = self._get_modules(point)
        return modules if name is None else modules.get(name)

    get_mounted = get

    def on_capability(self, name: str, callback: Callable[[Any], None]) -> None:
        """Call `callback` with the value of a capability, if it is registered, and with each later value."""
        self._capability_callbacks[name] = callback
        value = self.get_capability(name)
        if value is not None:
            callback(value)

    async def collect_contributions(self, channel: str) -> list[Any]:
        """Return the contributions to a channel in order, without None and failures."""
        contributions = []
        for name, callback in self.contributors(channel):
            with log_errors("skipping the failed contribution of %r to %r", name, channel):
                value = await resolve_awaitable(callback())
                if value is not None:
                    contributions.append(value)
        return contributions

    @abstractmethod
    def contributors(self, channel: str) -> Iterable[tuple[str, Callable[[], Any]]]:
        """Return the name and the callback of each contributor to a channel."""

    def register_cleanup(self, cleanup: Any) -> None:
        """Register a function for `cleanup`; anything else is ignored."""
        if callable(cleanup):
            self._cleanups.append(cleanup)

    async def cleanup(self, timeout: float = CLEANUP_TIMEOUT) -> None:
        """Call every cleanup, also if the caller is cancelled. The last registered cleanup is the first.

        Each has `timeout` seconds. Errors are logged.
        """
        # A cleanup may register another one.
        while self._cleanups:
            cleanup = self._cleanups.pop()
            with anyio.move_on_after(timeout, shield=True) as scope, log_errors("the cleanup of a module failed"):
                await resolve_awaitable(cleanup())
            if scope.cancelled_caught:
                logger.error("cancelled the cleanup of a module after %s seconds", timeout)

    async def process_hook_result(self, result: Any, event: str, hook_name: str = "unknown") -> HookResult:
        """Apply the decision of hooks: show the message, store texts for the model in the context, and ask the user.

        Returns a `deny` if the user declines, a `continue` if the user agrees, else the decision. A failing step never
        skips the others.
        """
        if result.user_message:
            with log_errors("cannot show the message of a hook"):
                await self._show_message(result, hook_name)
        for injection in get_injections(result):
            context = None if injection.ephemeral else self.get("context")
            if context is not None:
                with log_errors("cannot store an injected text in the context"):
                    await resolve_awaitable(context.add_message({"role": injection.role, "content": injection.content}))
        if result.action != "ask_user":
            decision: HookResult = result
            return decision
        prompt = result.approval_prompt or "Allow this?"
        options = result.approval_options or list(DEFAULT_OPTIONS)
        await self.hooks.emit(APPROVAL_REQUIRED, {"prompt": prompt, "event": event, "options": options})
        choice, reason = await self._ask_user(result, event, prompt, options)
        data, is_silent = result.data, result.suppress_output
        if is_grant(choice):
            await self.hooks.emit(APPROVAL_GRANTED, {"prompt": prompt, "choice": choice})
            return HookResult(action="continue", data=data, suppress_output=is_silent)
        await self.hooks.emit(APPROVAL_DENIED, {"prompt": prompt, "choice": choice})
        return HookResult(action="deny", data=data, reason=reason, suppress_output=is_silent)

    async def _show_message(self, result: HookResult, hook_name: str) -> None:
        source = result.user_message_source or hook_name
        show = getattr(self.display_system, "show_message", None)
        if show is None:
            logger.info("%s: %s", source, result.user_message)
        else:
            await resolve_awaitable(show(result.user_message, result.user_message_level, source))

    async def _ask_user(self, result: HookResult, event: str, prompt: str, options: list[str]) -> tuple[str, str]:
        """Return the user's choice, and the reason to report if that choice denies.

        The hook's default applies on a timeout; without a working approval system the choice is always `deny`.
        """
        system = self.approval_system
        if system is None:
            logger.warning("a hook asks for approval, but there is no approval system: %s", prompt)
            return "deny", "This needs the user's approval, and no approval system is available."
        try:
            if isinstance(system, EventApprover):
                decision = await system.approve_event(result, event)
                allow, deny = DEFAULT_OPTIONS
                choice = allow if decision.is_allowed else deny
                return choice, decision.reason or "The user declined."
            with anyio.fail_after(result.approval_timeout):
                request = system.request_approval(prompt, options, result.approval_timeout, result.approval_default)
                choice = await resolve_awaitable(request)
        except BaseException as error:
            if is_own_cancellation(error):
                raise
            # A module may raise amplifier-core's class, so compare the names, too.
            if isinstance(error, TimeoutError) or type(error).__name__ == ApprovalTimeoutError.__name__:
                return result.approval_default, "This needs the user's approval, and the request timed out."
            logger.exception("cannot ask the user for approval: %s", prompt)
            return "deny", "This needs the user's approval, and the request failed."
        return str(choice), f"The user chose: {choice}"

    async def request_cancel(self, immediate: bool = False) -> None:
        token = self.cancellation
        is_new = token.request_immediate() if immediate else token.request_graceful()
        if is_new:
            await self.hooks.emit(CANCEL_REQUESTED, {"level": token.state, "running_tools": token.running_tool_names})
            # The token of amplifier-core raises some errors of callbacks.
            with log_errors("a cancellation callback failed"):
                await token.trigger_callbacks()

    def take_snapshot(self) -> dict[str, Any]:
        """Return all registrations of modules except mount points and hooks, for comparison with a later snapshot."""
        contributors = []
        for channel in self.channels:
            contributors += [(channel, name) for name, _ in self.contributors(channel)]
        capabilities = {name: id(self.get_capability(name)) for name in self.to_dict()["capabilities"]}
        state = dict.fromkeys(self.session_state)
        return {
            "capabilities": capabilities,
            "contributors": contributors,
            "cleanups": len(self._cleanups),
            "state": state,
        }

    def _get_modules(self, point: str) -> dict[str, Any]:
        if point not in NAMED_POINTS:
            hint = " Register with coordinator.hooks.register instead." if point == "hooks" else ""
            points = ", ".join((*SINGLE_POINTS, *NAMED_POINTS))
            raise ValueError(f"Unknown mount point: {point}.{hint} Known: {points}")
        modules: dict[str, Any] = self.mount_points[point]
        return modules


class ModuleCoordinator(BaseCoordinator):
    """The mount points, hooks, capabilities and contributions of one session. Modules may set attributes on it.

    `config` is the mount plan. `on_change` is called when a provider or tool is mounted or unmounted.

    >>> coordinator = ModuleCoordinator()
    >>> coordinator.register_capability("weather.city", "Ulm")
    >>> coordinator.get_capability("weather.city")
    'Ulm'
    """

    def __init__(
        self,
        session: Any = None,
        approval_system: Any = None,
        display_system: Any = None,
        *,
        config: dict[str, Any] | None = None,
        session_id: str | None = None,
        parent_id: str | None = None,
        hooks: HookRegistry | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.session = session
        self.session_id = session_id or getattr(session, "session_id", None) or uuid4().hex
        self.parent_id = parent_id or getattr(session, "parent_id", None)
        self.config: dict[str, Any] = config or getattr(session, "config", None) or {}
        self.approval_system = approval_system
        self.display_system = display_system
        self.hooks = hooks or HookRegistry()
        self.hooks.set_default_fields(session_id=self.session_id, parent_id=self.parent_id)
        self.cancellation = CancellationToken()
        self.loader: Any = None
        self.session_state: dict[str, Any] = {}
        self.channels: dict[str, list[tuple[str, Callable[[], Any]]]] = {}
        self.mount_points: dict[str, Any] = MountPoints(self.hooks, on_change)
        self._capabilities: dict[str, Any] = {}
        self._capability_callbacks = {}
        self._cleanups = []

    def register_capability(self, name: str, value: Any) -> None:
        self._capabilities[name] = value
        if name in self._capability_callbacks:
            self._capability_callbacks[name](value)

    def get_capability(self, name: str) -> Any:
        return self._capabilities.get(name)

    def register_contributor(self, channel: str, name: str, callback: Callable[[], Any]) -> None:
        """Contribute to a channel each time it is collected; a name contributes once."""
        entries = [entry for entry in self.channels.get(channel, []) if entry[0] != name]
        self.channels[channel] = [*entries, (name, callback)]

    def contributors(self, channel: str) -> Iterable[tuple[str, Callable[[], Any]]]:
        return self.channels.get(channel, [])

    def to_dict(self) -> dict[str, Any]:
        return {
            "session_id": self.session_id,
            "parent_id": self.parent_id,
            **{point: sorted(self.mount_points[point]) for point in NAMED_POINTS},
            **{point: self.mount_points[point] is not None for point in SINGLE_POINTS},
            "capabilities": sorted(self._capabilities),
        }


def _resolve_point(point: str, name: str | None) -> tuple[str, str | None]:
    """Return the mount point and the name.

    The contracts mount an orchestrator or a context at `session` under this name. amplifier-core has no such mount
    point, but one for each of the two.
    """
    if point == _SESSION_POINT and name in AGENT_POINTS:
        return str(name), None
    return point, name
