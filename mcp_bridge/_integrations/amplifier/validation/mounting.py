"""Mounting a module for its examination: what records it meanwhile, and the checks that all types have in common."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import anyio

from mcp_bridge._contracts.handlers import is_async
from mcp_bridge._integrations.amplifier.doubles import TestCoordinator
from mcp_bridge._integrations.amplifier.hooks import HookRegistry, Registration
from mcp_bridge._integrations.amplifier.session import accept_mount_result, is_provider, is_tool
from mcp_bridge._integrations.amplifier.validation.checklist import KINDS
from mcp_bridge._integrations.amplifier.validation.examiner import Examiner, describe_mismatch

EVENTS_CHANNEL = "observability.events"
GRACE = 1.0  # seconds in which threads and processes of a module may end after its cleanups
_NAME_WORDS = {
    "tool": "tool", "tools": "tool", "hook": "hook", "hooks": "hook", "provider": "provider", "loop": "orchestrator",
    "orchestrator": "orchestrator", "context": "context",
}  # fmt: skip
"""The types that words in a module's name mean."""
_GUESS_ORDER = ("tool", "provider", "orchestrator", "context", "hook")
_POOLS = (
    "AnyIO worker thread",
    "asyncio_",
    "uvloop_",
    "ThreadPoolExecutor-",
)  # their idle threads end with the interpreter


class RecordingCoordinator(TestCoordinator):
    """A coordinator whose cleanups the examination calls, and whose hooks have no timeout."""

    def __init__(self) -> None:
        super().__init__()
        self.hooks = self.mount_points["hooks"] = HookRegistry(timeout=None)
        self.cleanups: list[Callable[[], Any]] = []

    def register_cleanup(self, cleanup: Any) -> None:
        if callable(cleanup):
            self.cleanups.append(cleanup)

    def accept_result(self, result: Any) -> str:
        """Mount or register the result of `mount`, as a session does. Return a problem, or an empty text."""
        is_agent_module = any(result is one for one in self.get("session").values())
        if is_agent_module and not is_tool(result) and not is_provider(result):
            return ""
        is_accepted = accept_mount_result(self, result) or result is None
        return "" if is_accepted else f"`mount` returns a {type(result).__name__}"

    def list_registrations(self) -> list[tuple[str, Registration]]:
        return [(event, one) for event, registered in self.hooks.list_registrations().items() for one in registered]

    def list_mounted(self, kind: str) -> dict[str, Any]:
        """What is mounted of a type, by name; for hooks, the registered handlers."""
        if kind == "hook":
            return {f"{one.name} on {event}": one for event, one in self.list_registrations()}
        if kind in {"tool", "provider"}:
            return dict(self.get(f"{kind}s"))
        mounted = self.get(kind)
        return {} if mounted is None else {kind: mounted}


def _record_read(method: Callable[..., Any]) -> Callable[..., Any]:
    def record(config: RecordingConfig, *args: Any) -> Any:
        config.read.add(str(args[0]) if args else "*")
        return method(config, *args)

    return record


class RecordingConfig(dict[str, Any]):
    """A configuration that records in `read` which keys were read; `*` means all keys."""

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)
        self.read: set[str] = set()

    __getitem__ = _record_read(dict.__getitem__)
    __contains__ = _record_read(dict.__contains__)
    get = _record_read(dict.get)
    pop = _record_read(dict.pop)
    setdefault = _record_read(dict.setdefault)
    __iter__ = _record_read(dict.__iter__)
    __bool__ = _record_read(lambda config: len(config) > 0)  # `config or {}` replaces an empty configuration
    keys = _record_read(dict.keys)
    values = _record_read(dict.values)
    items = _record_read(dict.items)
    copy = _record_read(dict.copy)


class ModuleUnderTest:
    """A module and what it has mounted on `coordinator`. `logged` is the number of records logged while mounting."""

    def __init__(
        self, examiner: Examiner, mount: Callable[..., Any], module: ModuleType, config: dict[str, Any]
    ) -> None:
        self._examiner = examiner
        self._mount = mount
        self._on_ready = getattr(module, "on_session_ready", None)
        self._given_config = config
        self._threads_before = set(threading.enumerate())
        self._is_ready = False
        self.coordinator = RecordingCoordinator()
        self.config = RecordingConfig(config)
        self.logged = 0

    def check_function(self) -> bool:
        """Check `mount` itself. Return whether it can be called; it may be a plain function."""
        examiner = self._examiner
        advice = "Write `async def mount(coordinator, config)`"
        examiner.check("mount.async", "" if is_async(self._mount) else "it is a plain function", advice)
        return examiner.check("mount.parameters", describe_mismatch(self._mount, None, {}), advice)

    async def check_mount(self) -> bool:
        """Mount the module. Return whether that works."""
        before = self._examiner.log_counter.count
        outcome = await self._examiner.call(self._mount, self.coordinator, self.config)
        self.logged = self._examiner.log_counter.count - before
        if not self._examiner.check("mount.works", outcome.problem, "Fix what raises, or pass its --config"):
            return False
        problem = self.coordinator.accept_result(outcome.result)
        self._examiner.check("mount.answer", problem, "Return what it mounted, a cleanup, or None")
        return True

    async def check_ready(self) -> None:
        if not callable(self._on_ready):
            self._examiner.report_skipped("mount.ready", "it has none")
            return
        outcome = await self._examiner.call(self._on_ready, self.coordinator)
        advice = "Catch what it raises: it runs once all modules are mounted"
        self._is_ready = self._examiner.check("mount.ready", outcome.problem, advice)

    def guess_kind(self) -> str | None:
        """The type of what is mounted, or None where nothing is."""
        return next((kind for kind in _GUESS_ORDER if self.coordinator.list_mounted(kind)), None)

    def check_mounted(self, kind: str | None) -> bool:
        problem, advice = "", ""
        if kind is None or not self.coordinator.list_mounted(kind):
            found = self.guess_kind()
            problem, advice = "it mounted nothing", "Pass the configuration that it needs with --config"
            if found is not None:
                problem = f"its type is {kind}, and it mounted something of type {found}"
                advice = f"Mount a {kind}, or check it with --type {found}"
        return self._examiner.check("mount.mounts", problem, advice)

    async def check_events(self) -> None:
        names, problem = [], ""
        for _, callback in self.coordinator.channels.get(EVENTS_CHANNEL, []):
            outcome = await self._examiner.call(callback)
            problem = problem or outcome.problem
            if isinstance(outcome.result, list | tuple):
                names += [one for one in outcome.result if isinstance(one, str)]
        problem = problem or ("" if names else "it contributes none")
        advice = f'Call coordinator.register_contributor("{EVENTS_CHANNEL}", NAME, lambda: [...])'
        self._examiner.check("events", problem, advice)

    async def check_second_session(self, kind: str) -> None:
        """Mount the module for a second session, and compare what is mounted."""
        other, first = RecordingCoordinator(), sorted(self.coordinator.list_mounted(kind))
        outcome = await self._examiner.call(self._mount, other, dict(self._given_config))
        problem = outcome.problem
        if not problem:
            other.accept_result(outcome.result)
            if callable(self._on_ready) and self._is_ready:
                problem = (await self._examiner.call(self._on_ready, other)).problem
        second = sorted(other.list_mounted(kind))
        if not problem and second != first:
            problem = f"the first session has {', '.join(first)}, the second {', '.join(second) or 'nothing'}"
        self._examiner.check(
            "mount.twice", problem, "Store the state of a session on its coordinator, not in the module"
        )
        self.coordinator.cleanups += other.cleanups

    async def check_without_config(self) -> None:
        other = RecordingCoordinator()
        outcome = await self._examiner.call(self._mount, other, {})
        other.accept_result(outcome.result)
        self.coordinator.cleanups += other.cleanups
        self._examiner.check("provider.degrades", outcome.problem, "Log what is missing, and return None")

    async def check_cleanup(self, kind: str | None) -> None:
        problems = []
        for cleanup in reversed(self.coordinator.cleanups):
            outcome = await self._examiner.call(cleanup)
            problems += [outcome.problem] if outcome.problem else []
        advice = "Raise nothing in a cleanup, even when it is called twice"
        self._examiner.check("mount.cleanup", "; ".join(problems), advice)
        if kind == "hook":
            events = ", ".join(self.coordinator.hooks.list_handlers())
            advice = "Return a function from `mount` that calls what `register` has returned"
            self._examiner.check("hook.unregisters", f"handlers of {events} are left" if events else "", advice)
        advice = "Stop in a cleanup what `mount` or a call has started"
        self._examiner.check("mount.leftovers", await self._wait_for_leftovers(), advice)

    async def _wait_for_leftovers(self) -> str:
        end = time.monotonic() + GRACE
        # Nothing signals the end of a process of a process.
        while (leftovers := self._describe_leftovers()) and time.monotonic() < end:  # noqa: ASYNC110
            await anyio.sleep(0.05)
        return leftovers

    def _describe_leftovers(self) -> str:
        threads = [
            thread.name
            for thread in threading.enumerate()
            if thread not in self._threads_before and not thread.daemon and not thread.name.startswith(_POOLS)
        ]
        found = {"threads": threads, "processes": _list_processes()}
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in found.items() if names)


def detect_kind(module: ModuleType, name: str, given: str | None, examiner: Examiner) -> tuple[str | None, str]:
    """The type of a module, and where it is from: the option, the declaration or the name. None where none says it."""
    declared = getattr(module, "__amplifier_module_type__", None)
    advice = f"Write `__amplifier_module_type__ = ...` at the top of the module: one of {', '.join(KINDS)}"
    if declared is None:
        examiner.report_failed("structure.type", "it declares no type", advice)
    elif declared not in KINDS or given not in (None, declared):
        option = f", and the option is --type {given}" if given is not None else ""
        examiner.report_failed("structure.type", f"it declares {declared!r}{option}", advice)
    else:
        examiner.report_passed("structure.type", str(declared))
    if given is not None:
        return given, "--type"
    if declared in KINDS:
        return str(declared), "__amplifier_module_type__"
    words = name.lower().replace("-", "_").replace(".", "_").split("_")
    guess = next((_NAME_WORDS[word] for word in words if word in _NAME_WORDS), None)
    return guess, "its name" if guess else ""


def _list_processes() -> list[str]:
    """The children of this process and, on Linux, the orphans that its supervisor has adopted."""
    import psutil

    running, own = [], psutil.Process()
    for parent in (own, own.parent()) if sys.platform == "linux" else (own,):
        for child in parent.children():
            with contextlib.suppress(psutil.Error):  # it may end meanwhile
                if child != own and child.status() != psutil.STATUS_ZOMBIE:
                    running.append(f"{child.name()} ({child.pid})")
    return running
