"""What examines a module, in a process of its own: `python -m mcp_bridge.amplifier.validation.worker`.

Its order is one line of JSON on standard input, what it finds goes to standard output as lines of JSON. The module has
neither: it reads nothing, and what it prints is caught.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import EntryPoint
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import anyio

from mcp_bridge.amplifier.importing import explained, import_from
from mcp_bridge.amplifier.module_sources import GROUP
from mcp_bridge.amplifier.validation import contexts, hooks, orchestrators, providers, tools
from mcp_bridge.amplifier.validation.bench import Bench
from mcp_bridge.amplifier.validation.examiner import Examiner, Step, Tell
from mcp_bridge.amplifier.validation.mounting import Mounted, kind_of
from mcp_bridge.runtime.event_loop import lasting

FILE = 256 * 1024 * 1024
"""The largest file that a module may write while it is examined, in bytes."""
_SHOWN = 80
"""Characters of what was printed that are shown."""


class Printed:
    """What was written to standard output since it was last asked for, by whomever."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._seen = 0

    def __call__(self) -> str:
        """The beginning of it."""
        with suppress(Exception):  # a module may have put anything there
            sys.stdout.flush()
        end = self._file.seek(0, os.SEEK_END)
        self._file.seek(self._seen)
        text = self._file.read(_SHOWN) if end > self._seen else b""
        self._seen = end
        return text.decode(errors="replace").strip() or ("blank lines" if text else "")


class Examination:
    """One module, from its import to its cleanup."""

    def __init__(self, order: dict[str, Any], tell: Tell, examiner: Examiner) -> None:
        self._order = order
        self._tell = tell
        self._examiner = examiner
        self._mounted: Mounted | None = None
        self._kind: str | None = order["kind"]
        self._works = self._there = False

    async def run(self) -> None:
        """All of it, as far as it goes."""
        await self._examiner.perform([Step(item="structure.import", run=self._import, always=True)])
        if self._mounted is not None:
            await self._examiner.perform([Step(item="mount.works", run=self._mount, always=True)])
        if self._works:
            await self._examiner.perform([Step(item="mount.ready", run=self._ready, always=True)])
        if self._there and self._mounted is not None and self._kind is not None:
            await self._examiner.perform(self._steps(self._mounted, self._kind))
        self._tell({"say": "over"})

    async def _import(self) -> None:
        examiner = self._examiner
        try:
            module, mount = _imported(self._order)
        except Exception as error:  # it says what is wrong
            examiner.failed("structure.import", str(error), "Mend what keeps it from being imported")
            return
        examiner.passed("structure.import")
        advice = "Write `async def mount(coordinator, config)`, and name it in the entry point"
        if not examiner.check("mount.function", "" if callable(mount) else "there is no `mount`", advice):
            return
        self._kind, how = kind_of(module, f"{self._order['id']}.{module.__name__}", self._kind, examiner)
        self._tell({"say": "kind", "kind": self._kind, "how": how})
        mounted = Mounted(examiner, mount, module, self._order["config"])
        if mounted.functions():
            self._mounted = mounted

    async def _mount(self) -> None:
        assert self._mounted is not None
        self._works = await self._mounted.mount()

    async def _ready(self) -> None:
        mounted = self._mounted
        assert mounted is not None
        await mounted.ready()
        if self._kind is None:
            self._kind = mounted.found()
            self._tell({"say": "kind", "kind": self._kind, "how": "what it mounts"})
        self._there = mounted.mounts(self._kind)

    def _steps(self, mounted: Mounted, kind: str) -> list[Step]:
        async def twice() -> None:
            await mounted.twice(kind)

        async def cleanup() -> None:
            await mounted.cleanup(kind)

        return [
            Step(item="events", run=mounted.events),
            *self._of_kind(mounted, kind),
            Step(item="mount.twice", run=twice),
            Step(item="mount.cleanup", run=cleanup),
        ]

    def _of_kind(self, mounted: Mounted, kind: str) -> list[Step]:
        examiner, bench = self._examiner, mounted.bench
        if kind == "tool":
            return tools.steps(examiner, bench)
        if kind == "hook":
            return hooks.steps(examiner, bench, mounted.config, mounted.logged)
        if kind == "orchestrator":
            return orchestrators.steps(examiner, bench)
        if kind == "context":
            return contexts.steps(examiner, bench, mounted.config)

        async def degrades() -> None:
            outcome = await examiner.call(mounted.again, other := Bench(), {})
            other.take(outcome.answer)
            bench.cleanups += other.cleanups
            examiner.check("provider.degrades", outcome.wrong, "Log what is missing, and answer with None")

        found = providers.steps(examiner, bench, mounted.config, len(bench.cleanups))
        return [*found, Step(item="provider.degrades", run=degrades)]


def _imported(order: dict[str, Any]) -> tuple[ModuleType, Any]:
    """The module, and its `mount`. Raises ModuleLoadError."""
    if order["path"] is not None:
        module, name = import_from(Path(order["path"]), order["id"], aside=False)
        return module, getattr(module, name, None)
    point = EntryPoint(order["id"], order["point"], GROUP)
    with explained(point.name, aside=False):
        module, loaded = importlib.import_module(point.module), point.load()
    return module, loaded if point.attr else getattr(loaded, "mount", None)


def _telling(descriptor: int) -> Tell:
    """What writes messages as lines."""

    def tell(message: dict[str, Any]) -> None:
        line = json.dumps(message, default=str).encode() + b"\n"
        while line:
            line = line[os.write(descriptor, line) :]

    return tell


def _ordered() -> dict[str, Any]:
    """The order; after that there is nothing more to be read."""
    line = b""
    while not line.endswith(b"\n") and (data := os.read(0, 65_536)):
        line += data
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    order: dict[str, Any] = json.loads(line)
    return order


def _caught() -> tuple[Tell, Callable[[], str]]:
    """The way out, which is standard output as it was; and what catches what is written there from now on."""
    tell = _telling(os.dup(1))
    file = tempfile.TemporaryFile("a+b", buffering=0)  # noqa: SIM115 - it is there to the end
    os.dup2(file.fileno(), 1)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(write_through=True, errors="backslashreplace")
    return tell, Printed(file)


def _restrict() -> None:
    """No core of a crash, and no file without end: what a module prints is in one."""
    if sys.platform != "win32":
        import resource

        for which, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, FILE)):
            _, hard = resource.getrlimit(which)
            least = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(which, (least, hard))


def main() -> None:
    """Examine a module."""
    order = _ordered()
    _restrict()
    tell, printed = _caught()
    os.environ["HOME"] = os.getcwd()  # what a module keeps at home is no business of a check
    examiner = Examiner(tell, order["patience"], order["tried"], printed)
    examination = Examination(order, tell, examiner)
    anyio.run(examination.run, backend_options={"loop_factory": lasting()})


if __name__ == "__main__":
    main()
