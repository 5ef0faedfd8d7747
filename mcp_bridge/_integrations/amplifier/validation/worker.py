"""The worker that examines one module in a process of its own: `python -m` with the name of this module.

It reads its order from standard input and writes its messages to standard output, both as lines of JSON. The module
has neither stream: it reads nothing, and what it prints is captured.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import EntryPoint
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import anyio

from mcp_bridge._integrations.amplifier.module_import import import_module_at, wrap_load_errors
from mcp_bridge._integrations.amplifier.module_sources import ENTRY_POINT_GROUP
from mcp_bridge._integrations.amplifier.validation.contexts import build_context_steps
from mcp_bridge._integrations.amplifier.validation.examiner import Examiner, Report, Step
from mcp_bridge._integrations.amplifier.validation.hooks import build_hook_steps
from mcp_bridge._integrations.amplifier.validation.mounting import ModuleUnderTest, detect_kind
from mcp_bridge._integrations.amplifier.validation.orchestrators import build_orchestrator_steps
from mcp_bridge._integrations.amplifier.validation.providers import build_provider_steps
from mcp_bridge._integrations.amplifier.validation.tools import build_tool_steps
from mcp_bridge._runtime.event_loop import make_loop_factory

MAX_FILE_SIZE = 256 * 1024 * 1024  # bytes of the largest file that a module may write
_MAX_PRINTED = 80  # characters of printed text that are reported
_BUILDERS: dict[str, Callable[[Examiner, ModuleUnderTest], list[Step]]] = {
    "tool": build_tool_steps,
    "hook": build_hook_steps,
    "orchestrator": build_orchestrator_steps,
    "context": build_context_steps,
    "provider": build_provider_steps,
}


class ModuleExamination:
    """The examination of one module, from its import to its cleanup."""

    def __init__(self, order: dict[str, Any], report: Report, examiner: Examiner) -> None:
        self._order = order
        self._report = report
        self._examiner = examiner
        self._module: ModuleUnderTest | None = None
        self._kind: str | None = order["kind"]
        self._is_mounted = self._has_kind = False

    async def run(self) -> None:
        """Run every step that the steps before it allow."""
        await self._run_step("structure.import", self._import)
        if self._module is not None:
            await self._run_step("mount.works", partial(self._mount, self._module))
            if self._is_mounted:
                await self._run_step("mount.ready", partial(self._get_ready, self._module))
            if self._has_kind and self._kind is not None:
                await self._examiner.run_steps(self._build_steps(self._module, self._kind))
        self._report({"say": "over"})

    async def _run_step(self, item: str, run: Callable[[], Any]) -> None:
        await self._examiner.run_steps([Step(item=item, run=run, always=True)])

    async def _import(self) -> None:
        examiner = self._examiner
        try:
            module, mount = _import_module(self._order)
        except Exception as error:  # its message names the problem
            examiner.report_failed("structure.import", str(error), "Fix what keeps it from being imported")
            return
        examiner.report_passed("structure.import")
        advice = "Write `async def mount(coordinator, config)`, and name it in the entry point"
        if not examiner.check("mount.function", "" if callable(mount) else "there is no `mount`", advice):
            return
        self._kind, source = detect_kind(module, f"{self._order['id']}.{module.__name__}", self._kind, examiner)
        self._report({"say": "kind", "kind": self._kind, "how": source})
        mounted = ModuleUnderTest(examiner, mount, module, self._order["config"])
        if mounted.check_function():
            self._module = mounted

    async def _mount(self, module: ModuleUnderTest) -> None:
        self._is_mounted = await module.check_mount()

    async def _get_ready(self, module: ModuleUnderTest) -> None:
        await module.check_ready()
        if self._kind is None:
            self._kind = module.guess_kind()
            self._report({"say": "kind", "kind": self._kind, "how": "what it mounts"})
        self._has_kind = module.check_mounted(self._kind)

    def _build_steps(self, module: ModuleUnderTest, kind: str) -> list[Step]:
        return [
            Step(item="events", run=module.check_events),
            *_BUILDERS[kind](self._examiner, module),
            Step(item="mount.twice", run=partial(module.check_second_session, kind)),
            Step(item="mount.cleanup", run=partial(module.check_cleanup, kind)),
        ]


def _import_module(order: dict[str, Any]) -> tuple[ModuleType, Any]:
    """The module and its `mount`. Raises ModuleLoadError."""
    if order["path"] is not None:
        module, name = import_module_at(Path(order["path"]), order["id"], aside=False)
        return module, getattr(module, name, None)
    point = EntryPoint(order["id"], order["point"], ENTRY_POINT_GROUP)
    with wrap_load_errors(point.name, aside=False):
        module, loaded = importlib.import_module(point.module), point.load()
    return module, loaded if point.attr else getattr(loaded, "mount", None)


def _read_order() -> dict[str, Any]:
    """Read the order, and replace standard input by an empty one."""
    line = b""
    while not line.endswith(b"\n") and (data := os.read(0, 65_536)):
        line += data
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    order: dict[str, Any] = json.loads(line)
    return order


def _capture_stdout() -> tuple[Report, Callable[[], str]]:
    """Capture standard output in a file. Return what reports to the original one, and what reads the file."""
    report = partial(_write_message, os.dup(1))
    file = tempfile.TemporaryFile("a+b", buffering=0)  # noqa: SIM115 - it stays open until the process ends
    os.dup2(file.fileno(), 1)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(write_through=True, errors="backslashreplace")
    return report, CapturedOutput(file).read_new


def _write_message(descriptor: int, message: dict[str, Any]) -> None:
    line = json.dumps(message, default=str).encode() + b"\n"
    while line:
        line = line[os.write(descriptor, line) :]


class CapturedOutput:
    """The file that receives all that this process and its children print."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._position = 0

    def read_new(self) -> str:
        """The beginning of what was printed since the last call."""
        with suppress(Exception):  # a module may have replaced sys.stdout
            sys.stdout.flush()
        end = self._file.seek(0, os.SEEK_END)
        self._file.seek(self._position)
        text = self._file.read(_MAX_PRINTED) if end > self._position else b""
        self._position = end
        return text.decode(errors="replace").strip() or ("blank lines" if text else "")


def _limit_resources() -> None:
    """Allow no core dump, and no file beyond the limit: what a module prints is in a file."""
    if sys.platform != "win32":
        import resource

        for which, limit in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, MAX_FILE_SIZE)):
            _, hard = resource.getrlimit(which)
            resource.setrlimit(which, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def main() -> None:
    order = _read_order()
    _limit_resources()
    report, read_printed = _capture_stdout()
    os.environ["HOME"] = os.getcwd()  # an examination must not touch the user's files
    examiner = Examiner(report, order["patience"], order["tried"], read_printed)
    anyio.run(ModuleExamination(order, report, examiner).run, backend_options={"loop_factory": make_loop_factory()})


if __name__ == "__main__":
    main()
