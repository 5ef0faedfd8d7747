"""The worker for the examination of one module in a separate process: `python -m` with the name of this module.

It reads its order from standard input and writes its messages to standard output, both as lines of JSON. The module
has neither stream: it reads nothing, and what it prints is captured.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import EntryPoint
from io import TextIOWrapper
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import anyio

from mcp_bridge._integrations.amplifier.behavior import SUITES
from mcp_bridge._integrations.amplifier.behavior.module_tests import (
    MOUNTING_RULE,
    ModuleBehaviorTests,
    RuleOutcome,
    check_rule,
    list_mounted,
    list_rules,
)
from mcp_bridge._integrations.amplifier.errors import ModuleLoadError
from mcp_bridge._integrations.amplifier.module_import import CORE_PACKAGE, import_module_at, wrap_load_errors
from mcp_bridge._integrations.amplifier.module_sources import ENTRY_POINT_GROUP
from mcp_bridge._protocol.line_channel import BlockingLineChannel
from mcp_bridge._runtime.event_loop import make_loop_factory

IMPORT_RULE = "it_can_be_imported"
STDOUT_RULE = "it_prints_nothing_to_stdout"
# The bytes of the largest file that a module may write.
_MAX_FILE_SIZE = 256 * 1024 * 1024
# Reports contain this many characters of printed text.
_MAX_PRINTED = 80
_MAX_REASON = 300
Report = Callable[[dict[str, Any]], None]


class ModuleExamination:
    """The examination of one module: its import, and the rules of its suite.

    A rule may crash or block the process. Then another process continues with the rules that are not in `tried` yet.
    Each rule is reported before it is checked, so the parent process knows which one has failed.
    """

    def __init__(self, order: dict[str, Any], report: Report, read_printed: Callable[[], str]) -> None:
        self._order = order
        self._report = report
        self._read_printed = read_printed

    async def run(self) -> None:
        """Import the module and check its rules. Nothing is checked of a module that cannot be mounted."""
        self._report({"say": "rule", "rule": IMPORT_RULE})
        try:
            module = _import_module(self._order)
        except ModuleLoadError as error:
            self._report_outcome(IMPORT_RULE, RuleOutcome("failed", str(error)))
            return
        self._report_outcome(IMPORT_RULE, RuleOutcome("passed"))
        attributes = {
            "config": self._order["config"],
            "timeout": self._order["timeout"],
            "host": "core" if CORE_PACKAGE in sys.modules else "native",
        }
        # The type may only be known after the module was mounted.
        self._report({"say": "rule", "rule": MOUNTING_RULE})
        kind, origin = await _detect_type(module, self._order["kind"], attributes)
        self._report({"say": "kind", "kind": kind, "origin": origin})
        suite = SUITES[kind]
        # An examination makes no requests to the APIs of models.
        if kind == "provider":
            attributes["can_call_model"] = False
        for rule in list_rules(suite):
            if rule in self._order["tried"]:
                continue
            self._report({"say": "rule", "rule": rule})
            outcome = await check_rule(suite, rule, module, **attributes)
            self._report_outcome(rule, outcome)
            if rule == MOUNTING_RULE and outcome.state == "failed":
                return

    def _report_outcome(self, rule: str, outcome: RuleOutcome) -> None:
        reason = outcome.reason if len(outcome.reason) <= _MAX_REASON else f"{outcome.reason[:_MAX_REASON]}…"
        self._report({"say": "outcome", "rule": rule, "state": outcome.state, "reason": reason})
        if output := self._read_printed():
            reason = f"{output!r} was printed during {rule}. Use logging, or print to sys.stderr"
            self._report({"say": "outcome", "rule": STDOUT_RULE, "state": "failed", "reason": reason})


def _import_module(order: dict[str, Any]) -> Any:
    """Import a module, and return what a suite needs of it. Raises ModuleLoadError."""
    if order["path"] is not None:
        module, name = import_module_at(Path(order["path"]), order["id"], redirects_stdout=False)
        mount = getattr(module, name, None)
    else:
        point = EntryPoint(order["id"], order["point"], ENTRY_POINT_GROUP)
        with wrap_load_errors(point.name, redirects_stdout=False):
            module = importlib.import_module(point.module)
            mount = point.load()
        # An entry point without an attribute is the module itself.
        if not point.attr:
            mount = getattr(module, "mount", None)
    if not callable(mount):
        raise ModuleLoadError("there is no `mount`. Write `async def mount(coordinator, config)`")
    module_type = getattr(module, "__amplifier_module_type__", None)
    return SimpleNamespace(mount=mount, on_session_ready=getattr(module, "on_session_ready", None), type=module_type)


async def _detect_type(module: Any, option: str | None, attributes: dict[str, Any]) -> tuple[str, str]:
    """Return the type of a module and its origin: the option, the declaration, or else what the module mounts."""
    if option is not None:
        return option, "--type"
    if module.type in SUITES:
        return str(module.type), "__amplifier_module_type__"
    # The suite reports what the module raises.
    with suppress(Exception):
        tests = ModuleBehaviorTests()
        # The attributes are those of the class, with other values.
        vars(tests).update(attributes, module=module)
        async with tests.mount_module() as coordinator:
            for kind, suite in SUITES.items():
                if list_mounted(coordinator, suite.mount_point):
                    return kind, "what it mounts"
    return "tool", "no declaration"


def _capture_stdout() -> tuple[Report, Callable[[], str]]:
    """Capture standard output in a file. Return what reports to the original one, and what reads the file."""
    channel = BlockingLineChannel(0, os.dup(1))
    file = tempfile.TemporaryFile("a+b", buffering=0)  # noqa: SIM115 - it stays open until the process ends
    os.dup2(file.fileno(), 1)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(write_through=True, errors="backslashreplace")
    return channel.send, CapturedOutput(file).read_new


class CapturedOutput:
    """The file that receives all that this process and its children print."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._position = 0

    def read_new(self) -> str:
        """Return the beginning of what was printed since the last call."""
        # The module may have replaced sys.stdout.
        with suppress(Exception):
            sys.stdout.flush()
        end = self._file.seek(0, os.SEEK_END)
        self._file.seek(self._position)
        printed = self._file.read(_MAX_PRINTED) if end > self._position else b""
        self._position = end
        text = printed.decode(errors="replace").strip()
        return "blank lines" if printed and not text else text


def _limit_resources() -> None:
    """Allow no core dump, and no file beyond the limit: what a module prints is in a file."""
    if sys.platform != "win32":
        import resource

        for kind, limit in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, _MAX_FILE_SIZE)):
            _, hard = resource.getrlimit(kind)
            soft = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(kind, (soft, hard))


def main() -> None:
    order: dict[str, Any] = BlockingLineChannel(0, 1).receive()
    # The module reads an empty standard input.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _limit_resources()
    report, read_printed = _capture_stdout()
    # The module must not use the files of the user.
    os.environ["HOME"] = os.getcwd()
    examination = ModuleExamination(order, report, read_printed)
    anyio.run(examination.run, backend_options={"loop_factory": make_loop_factory()})
    report({"say": "over"})
    sys.stderr.flush()
    # After amplifier-core has emitted an event, a normal exit of the interpreter can crash.
    os._exit(0)


if __name__ == "__main__":
    main()
