"""The process in which `mcp-bridge module validate` examines one module.

It reads its order from standard input and writes its messages to standard output, both as lines of JSON. The module
itself cannot use these streams: its input is empty, and what it prints is captured.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import EntryPoint
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

import anyio

from mcp_bridge._integrations.amplifier.behavior import SUITES
from mcp_bridge._integrations.amplifier.behavior.module_tests import (
    MOUNTING_RULE,
    ModuleBehaviorTests,
    RuleOutcome,
    check_rule,
    find_modules_at,
    list_rules,
)
from mcp_bridge._integrations.amplifier.errors import ModuleLoadError
from mcp_bridge._integrations.amplifier.loader import LoadedModule, import_located_module
from mcp_bridge._integrations.amplifier.module_import import CORE_PACKAGE
from mcp_bridge._integrations.amplifier.module_sources import ENTRY_POINT_GROUP
from mcp_bridge._protocol.line_channel import BlockingLineChannel
from mcp_bridge._runtime.event_loop import make_loop_factory
from mcp_bridge._runtime.platform import system

IMPORT_RULE = "it_can_be_imported"
STDOUT_RULE = "it_prints_nothing_to_stdout"
# The bytes of the largest file that a module may write.
_MAX_FILE_SIZE = 256 * 1024 * 1024
# Reports contain this many bytes of printed text, and this many characters of a reason.
_MAX_PRINTED = 80
_MAX_REASON = 300
Report = Callable[[dict[str, Any]], None]


class ModuleExamination:
    """The examination of one module: its import, and the rules of its suite.

    A rule may crash or block the process. Then another process continues with the rules that are not in `tried`. Each
    rule is reported before it is checked, so the parent process knows the rule that has ended the process.
    """

    def __init__(self, order: dict[str, Any], report: Report, read_printed: Callable[[], str]) -> None:
        self._order = order
        self._report = report
        self._read_printed = read_printed

    async def run(self) -> None:
        """Import the module and check its rules. Nothing is checked of a module that cannot be mounted."""
        self._report({"say": "rule", "rule": IMPORT_RULE})
        try:
            module = import_located_module(_get_location(self._order), self._order["id"], redirects_stdout=False)
        except ModuleLoadError as error:
            self._report_outcome(IMPORT_RULE, RuleOutcome("failed", str(error)))
            return
        self._report_outcome(IMPORT_RULE, RuleOutcome("passed"))
        attributes = {
            "config": self._order["config"],
            "timeout": self._order["timeout"],
            "host": "core" if CORE_PACKAGE in sys.modules else "native",
        }
        # Detecting the type may mount the module, which may end this process. So the rule is reported first.
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
        output = self._read_printed()
        if output:
            reason = f"{output!r} was printed during {rule}. Use logging, or print to sys.stderr"
            self._report({"say": "outcome", "rule": STDOUT_RULE, "state": "failed", "reason": reason})


def _get_location(order: dict[str, Any]) -> Path | EntryPoint:
    if order["path"] is not None:
        return Path(order["path"])
    return EntryPoint(order["id"], order["point"], ENTRY_POINT_GROUP)


async def _detect_type(module: LoadedModule, option: str | None, attributes: dict[str, Any]) -> tuple[str, str]:
    """Return the type of a module and its origin: the option, the declaration, or else what the module mounts."""
    if option is not None:
        return option, "--type"
    if module.type in SUITES:
        return str(module.type), "__amplifier_module_type__"
    # If the module raises, the rules of the suite report it.
    with suppress(Exception):
        tests = ModuleBehaviorTests()
        vars(tests).update(attributes, module=module)
        async with tests.mount_module() as coordinator:
            for kind, suite in SUITES.items():
                if find_modules_at(coordinator, suite.mount_point):
                    return kind, "what it mounts"
    return "tool", "no declaration"


def _capture_stdout() -> tuple[Report, Callable[[], str]]:
    """Capture standard output in a file.

    Return a function that reports to the original standard output, and one that reads what was printed since its last
    call.
    """
    channel = BlockingLineChannel(0, os.dup(1))
    # Standard output shares the position in the file, which `read_new` moves. In append mode, all output still goes to
    # the end.
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
    """Allow no core dumps, and no file beyond the limit, because a module may print endlessly."""
    system.limit_resources({"CORE": 0, "FSIZE": _MAX_FILE_SIZE}, is_final=False)


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
