"""What holds for modules of every type: they are imported, mounted, mounted again, and clean up."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio

from mcp_bridge.amplifier.validation.bench import EVENTS_CHANNEL, Bench, Config
from mcp_bridge.amplifier.validation.examiner import Examiner, is_async, misfit
from mcp_bridge.amplifier.validation.items import KINDS

WORDS = {
    "tool": "tool", "tools": "tool", "hook": "hook", "hooks": "hook", "provider": "provider", "loop": "orchestrator",
    "orchestrator": "orchestrator", "context": "context",
}  # fmt: skip
"""Words in a module's name that say what it is."""
ENDING = 1.0
"""Seconds in which what a module has started may end, once it was told to."""
_ORDER = ("tool", "provider", "orchestrator", "context", "hook")
_POOLS = ("AnyIO worker thread", "asyncio_", "uvloop_", "ThreadPoolExecutor-")
"""Names of threads that wait for work, and end with the interpreter."""


class Mounted:
    """A module and what it has mounted. `config` is what it was given, `logged` how much it said meanwhile."""

    def __init__(
        self, examiner: Examiner, mount: Callable[..., Any], module: ModuleType, config: dict[str, Any]
    ) -> None:
        self._examiner = examiner
        self._mount = mount
        self._module = module
        self._given = config
        self._threads = set(threading.enumerate())
        self.bench = Bench()
        self.config = Config(config)
        self.logged = 0
        self._is_ready = False

    def again(self, bench: Bench, config: dict[str, Any]) -> Any:
        """Mount it on another coordinator; the answer is what `mount` answers."""
        return self._mount(bench, config)

    def functions(self) -> bool:
        """Whether `mount` can be called as it is; a plain function can."""
        examiner = self._examiner
        wrong = "" if is_async(self._mount) else "it is a plain function"
        examiner.check("mount.async", wrong, "Write `async def mount(coordinator, config)`")
        return examiner.check(
            "mount.parameters", misfit(self._mount, None, {}), "Write `async def mount(coordinator, config)`"
        )

    async def mount(self) -> bool:
        """Mount it; whether that went well."""
        before = self._examiner.logged.count
        outcome = await self._examiner.call(self._mount, self.bench, self.config)
        self.logged = self._examiner.logged.count - before
        if not self._examiner.check("mount.works", outcome.wrong, "Mend what raises, or give its --config"):
            return False
        odd = self.bench.take(outcome.answer)
        self._examiner.check("mount.answer", odd, "Let it answer with what it mounted, with a cleanup, or with None")
        return True

    async def ready(self) -> None:
        """Tell it that all is mounted, where it wants to know."""
        ready = getattr(self._module, "on_session_ready", None)
        if not callable(ready):
            self._examiner.skipped("mount.ready", "it has none")
            return
        outcome = await self._examiner.call(ready, self.bench)
        advice = "Catch what it raises: it runs once all modules are mounted"
        self._is_ready = self._examiner.check("mount.ready", outcome.wrong, advice)

    def found(self) -> str | None:
        """The type of what is mounted; None where nothing is."""
        return next((kind for kind in _ORDER if self.bench.modules(kind)), None)

    def mounts(self, kind: str | None) -> bool:
        """Whether there is anything of a type."""
        found = self.found()
        there = kind is not None and bool(self.bench.modules(kind))
        wrong, advice = "", ""
        if not there:
            wrong, advice = "it mounted nothing", "Give the configuration that it needs with --config"
            if found is not None:
                wrong = f"it is to be a module of type {kind}, and mounted something of type {found}"
                advice = f"Mount a {kind}, or check it with --type {found}"
        self._examiner.check("mount.mounts", wrong, advice)
        return there

    async def events(self) -> None:
        """What it contributes to the list of events."""
        found, wrong = [], ""
        for _, callback in self.bench.channels.get(EVENTS_CHANNEL, []):
            outcome = await self._examiner.call(callback)
            wrong = wrong or outcome.wrong
            if isinstance(outcome.answer, list | tuple):
                found += [one for one in outcome.answer if isinstance(one, str)]
        wrong = wrong or ("" if found else "it contributes none")
        advice = f'Call coordinator.register_contributor("{EVENTS_CHANNEL}", NAME, lambda: [...])'
        self._examiner.check("events", wrong, advice)

    async def twice(self, kind: str) -> None:
        """Mount it for another session, and compare."""
        other, first = Bench(), sorted(self.bench.modules(kind))
        outcome = await self._examiner.call(self.again, other, dict(self._given))
        wrong = outcome.wrong
        if not wrong:
            other.take(outcome.answer)
            ready = getattr(self._module, "on_session_ready", None)
            wrong = (await self._examiner.call(ready, other)).wrong if callable(ready) and self._is_ready else ""
        second = sorted(other.modules(kind))
        if not wrong and second != first:
            wrong = f"the first session has {', '.join(first)}, the second {', '.join(second) or 'nothing'}"
        self._examiner.check(
            "mount.twice", wrong, "Keep what belongs to a session on its coordinator, not in the module"
        )
        self.bench.cleanups += other.cleanups

    async def cleanup(self, kind: str | None) -> None:
        """Have it clean up, the last first, and look at what is left."""
        wrong = []
        for cleanup in reversed(self.bench.cleanups):
            outcome = await self._examiner.call(cleanup)
            wrong += [outcome.wrong] if outcome.wrong else []
        self._examiner.check(
            "mount.cleanup", "; ".join(wrong), "A cleanup raises nothing, also when it is called twice"
        )
        if kind == "hook":
            left = ", ".join(self.bench.hooks.list_handlers())
            told = f"there are handlers of {left}" if left else ""
            advice = "Let `mount` answer with a function that calls what `register` has answered"
            self._examiner.check("hook.unregisters", told, advice)
        self._examiner.check(
            "mount.leftovers", await self._left(), "End in a cleanup what `mount` or a call has started"
        )

    async def _left(self) -> str:
        end = time.monotonic() + ENDING
        while (left := self._running()) and time.monotonic() < end:  # noqa: ASYNC110 - processes do not say when they end
            await anyio.sleep(0.05)
        return left

    def _running(self) -> str:
        threads = [
            thread.name
            for thread in threading.enumerate()
            if thread not in self._threads and not thread.daemon and not thread.name.startswith(_POOLS)
        ]
        processes = _processes()
        told = [f"threads: {', '.join(threads)}"] if threads else []
        return "; ".join([*told, *([f"processes: {', '.join(processes)}"] if processes else [])])


def kind_of(module: ModuleType, name: str, given: str | None, examiner: Examiner) -> tuple[str | None, str]:
    """What a module is, and how that is known: it is said, or its name says so; None where neither is."""
    declared = getattr(module, "__amplifier_module_type__", None)
    advice = f"Write `__amplifier_module_type__ = ...` at the top of the module: one of {', '.join(KINDS)}"
    if declared is None:
        examiner.failed("structure.type", "it does not say", advice)
    elif declared not in KINDS or given not in (None, declared):
        wanted = f", and --type {given}" if given is not None else ""
        examiner.failed("structure.type", f"it says {declared!r}{wanted}", advice)
    else:
        examiner.passed("structure.type", str(declared))
    if given is not None:
        return given, "--type"
    if declared in KINDS:
        return str(declared), "__amplifier_module_type__"
    words = name.lower().replace("-", "_").replace(".", "_").split("_")
    guess = next((WORDS[word] for word in words if word in WORDS), None)
    return guess, "its name" if guess else ""


def _processes() -> list[str]:
    """What this process has started, and what these have left behind to its keeper; only Linux tells."""
    found = []
    own, keeper = os.getpid(), os.getppid()
    for pid in (own, keeper):
        for listed in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [child for child in listed.read_text().split() if int(child) != own]
    return [name for child in found if (name := _alive(child))]


def _alive(pid: str) -> str:
    """The name of a process that has not ended."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return ""
    return "" if rest.split()[:1] in (["Z"], ["X"]) else f"{name} ({pid})"
