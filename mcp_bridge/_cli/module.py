"""`module validate`: checks a module against the contract of its type.

The module is examined in separate processes: a new one is started whenever the module ends one.
"""

from __future__ import annotations

import json
import queue
import re
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp_bridge._cli.child_process import ChildProcess
from mcp_bridge._cli.exits import ExitCode
from mcp_bridge._cli.options import ModuleOptions, check_timeout
from mcp_bridge._cli.output import format_count, print_lines, show_table, write_json
from mcp_bridge._contracts.errors import BridgeError, ConfigError
from mcp_bridge._integrations.amplifier.errors import ModuleNotFoundError
from mcp_bridge._integrations.amplifier.validation.checklist import ItemFindings, list_ids
from mcp_bridge._integrations.amplifier.validation.structure import ExaminedModule, check_structure, find_module
from mcp_bridge._isolation import worker_system
from mcp_bridge._runtime import process_group
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._runtime.terminal_text import escape_line

START_TIMEOUT = 60.0
"""Seconds until a process must have started."""
SLACK = 2.0
"""Seconds added to the timeout of a step: the process enforces that one itself unless the module blocks it."""
GRACE = 2.0
"""Seconds that a process has to exit by itself, and then after it is signalled."""
KILL_TIMEOUT = 25.0
"""Seconds that the supervisor of the process has to end everything."""
MAX_PROCESSES = 50
STDERR_TAIL = 300
"""Characters of stderr that are shown."""
MESSAGES = frozenset({"step", "alive", "found", "kind", "over"})
GARBLED = "the module wrote to the channel of the check"
COMMAND = [sys.executable, "-P", "-m", "mcp_bridge._integrations.amplifier.validation.worker"]
Json = dict[str, Any]
_ADVICE = {
    "slow": "Wait without blocking (await), or raise --timeout",
    "item": "A module must not end the process it runs in",
}
_SECRET_KEY = re.compile("key|token|secret|passw|credential|auth", re.IGNORECASE)
_LABELS = {"passed": "ok  ", "failed": "FAIL", "warned": "warn", "skipped": "-   "}
_COLOURS = {"passed": "green", "failed": "red", "warned": "yellow", "skipped": "dim"}


def check_module(options: ModuleOptions) -> None:
    """Check a module; exit with 1 if a requirement is not met.

    Raises ConfigError for invalid options, and for a module that does not exist.
    """
    check_timeout(options.timeout)
    config = _parse_config(options.config)
    try:
        subject = find_module(options.module, Path.cwd())
    except ModuleNotFoundError as error:
        hint = "Pass its folder or file, or install it"
        raise ConfigError(str(error), where="MODULE", hint=hint) from error
    findings = ItemFindings()
    examination = ProbedModule(subject, options.type, config, options.timeout, findings)
    if check_structure(subject, findings):
        examination.run()
    result = Redactor(_list_secrets(config)).redact_value(_describe_check(options.module, examination, findings))
    if options.as_json:
        write_json(result)
    else:
        _print_result(result)
    raise SystemExit(ExitCode.OK if result["ok"] else ExitCode.FAILED)


def _parse_config(text: str) -> dict[str, Any]:
    hint = """Use one JSON object, such as '{"debug": true}'"""
    try:
        config = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"invalid JSON: {error}", where="--config", hint=hint) from error
    if not isinstance(config, dict):
        raise ConfigError(f"found {type(config).__name__}", where="--config", hint=hint)
    return config


def _list_secrets(value: Any, *, is_secret: bool = False) -> list[str]:
    """List the strings of a configuration that are below the name of a secret."""
    if isinstance(value, dict):
        return [
            text
            for key, item in value.items()
            for text in _list_secrets(item, is_secret=is_secret or bool(_SECRET_KEY.search(key)))
        ]
    if isinstance(value, list):
        return [text for item in value for text in _list_secrets(item, is_secret=is_secret)]
    return [value] if is_secret and isinstance(value, str) else []


def _describe_check(module: str, examination: ProbedModule, findings: ItemFindings) -> dict[str, Any]:
    rows = findings.build_findings(examination.kind)
    failed = list_ids(rows, "failed")
    return {
        "module": module,
        "type": examination.kind,
        "type_from": examination.kind_source,
        "ok": not failed,
        "failed": failed,
        "warned": list_ids(rows, "warned"),
        "items": [finding.to_dict() for finding in rows],
    }


def _print_result(result: dict[str, Any]) -> None:
    """Print a line for each item, or on a terminal a table in colour, and the summary."""
    if sys.stdout.isatty():
        rows, styles = [], []
        for item in result["items"]:
            rows.append((_LABELS[item["state"]], item["id"], item["contract"], _describe(item)))
            rows += [("", "", "", item["advice"])] if item["advice"] else []
            styles += [_COLOURS[item["state"]]] * (2 if item["advice"] else 1)
        show_table(("", "item", "contract", "found"), rows, styles=styles)
    else:
        for item in result["items"]:
            print_lines(f"{_LABELS[item['state']]} {item['id']}: {escape_line(_describe(item))}")
            if item["advice"]:
                print_lines(f"     {item['advice']} ({item['contract']})")
    print_lines(f"{result['module']}: {_summarize(result)}")


def _describe(item: dict[str, Any]) -> str:
    return str(item["found"] or item["what"])


def _summarize(result: dict[str, Any]) -> str:
    kind = f"{result['type']} (from {result['type_from']})" if result["type"] else "a module of unknown type"
    failed, warned = result["failed"], result["warned"]
    parts = [f"{format_count(len(failed), 'requirement')} not met: {', '.join(failed)}"] if failed else []
    parts += [f"{format_count(len(warned), 'warning')}: {', '.join(warned)}"] if warned else []
    return "; ".join([kind, *(parts or ["all checks passed"])])


class Probe(ChildProcess):
    """A process that examines a module, and the messages it sends. Raises OSError."""

    max_line = 65_536
    max_pending = 0  # a full queue would keep the reader from ending

    def __init__(self, order: Json, folder: str) -> None:
        self._is_garbled = False
        super().__init__(process_group.wrap_command(COMMAND), folder)
        self.send(order)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.wait_for_exit(GRACE)
        self.end()
        self.close_streams()

    def receive_report(self, timeout: float) -> Json | None:
        """Return the next message, or None if the process has ended or the module has written to its channel.

        Raises queue.Empty after `timeout` seconds.
        """
        line = self.lines.get(timeout=timeout)
        if line is None:
            self.wait_for_exit(GRACE)
            return None
        try:
            message: Json = json.loads(line)
            if message["say"] in MESSAGES:
                return message
        except (ValueError, TypeError, KeyError):
            pass
        self._is_garbled = True
        return None

    def end(self) -> None:
        """End the process now: its supervisor does that, or if that takes too long the whole group is killed."""
        if self.process.poll() is None:
            process_group.terminate_supervisor(self.process.pid)
            if sys.platform != "win32":
                self.process.send_signal(signal.SIGCONT)  # the module may have stopped the supervisor
            self.wait_for_exit(KILL_TIMEOUT)
        self.kill()

    def describe_end(self) -> str:
        status = f"it {worker_system.describe_status(self.process.poll(), sandboxed=False)}"
        end = GARBLED if self._is_garbled else status
        stderr = self.read_stderr_tail(STDERR_TAIL, GRACE)
        return f"{end}. Its stderr: {stderr}" if stderr else end


class ProbedModule:
    """Examines a module until every step was tried once; `timeout` is in seconds for each step.

    `kind` is the type of the module once it is known, and `kind_source` where that is declared.
    """

    def __init__(
        self, subject: ExaminedModule, kind: str | None, config: Json, timeout: float, findings: ItemFindings
    ) -> None:
        self._subject = subject
        self._config = config
        self._timeout = timeout
        self._findings = findings
        self._tried: set[str] = set()
        self._step: Json | None = None
        self._given_kind = kind
        self.kind = kind
        self.kind_source = "--type" if kind else ""

    def run(self) -> None:
        """Examine the module. Raises BridgeError if no process can be started."""
        for _ in range(MAX_PROCESSES):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                if self._run_process(folder):
                    break
        if not self._findings.has_failed("stdout"):
            self._findings.add("stdout", "passed")

    def _run_process(self, folder: str) -> bool:
        """Run one process for the steps not tried yet; return whether none is left."""
        self._step = None
        try:
            probe = Probe(self._to_order(), folder)
        except OSError as error:
            raise BridgeError(f"cannot start a process: {error}") from error
        with probe:
            while True:
                try:
                    message = probe.receive_report(self._timeout + SLACK if self._step else START_TIMEOUT)
                except queue.Empty:
                    probe.end()
                    return self._fail_step("slow", f"it blocked the process for {self._timeout:g} s")
                if message is None:
                    return self._fail_step("item", probe.describe_end())
                if message["say"] == "over":
                    return True
                try:
                    self._handle(message)
                except (LookupError, TypeError, ValueError):  # the module can write to this channel, too
                    return self._fail_step("item", GARBLED)

    def _to_order(self) -> Json:
        subject = self._subject
        return {
            "id": subject.id,
            "path": str(subject.path) if subject.path is not None else None,
            "point": subject.point.value if subject.point is not None else None,
            "kind": self._given_kind,
            "config": self._config,
            "patience": self._timeout,
            "tried": sorted(self._tried),
        }

    def _handle(self, message: Json) -> None:
        if message["say"] == "step":
            if self._step is not None:
                self._tried.add(self._step["key"])
            self._step = message
        elif message["say"] == "found":
            self._findings.add(message["item"], message["state"], message["found"], message["advice"])
        elif message["say"] == "kind":
            self.kind, self.kind_source = message["kind"], message["how"]

    def _fail_step(self, blamed: str, problem: str) -> bool:
        """Record the step that ended the process as failed; return whether no other step can run without it."""
        step = self._step
        if step is None:
            raise BridgeError(f"the module could not be examined: {problem}")
        subject = f"'{step['key'].partition(':')[2]}': " if step["key"].partition(":")[2] else ""
        item = step[blamed] or step["item"]
        self._findings.add(item, "failed", f"{subject}{problem}", _ADVICE[blamed])
        self._tried |= {step["key"], step["group"] or step["key"]}
        return bool(step["always"])
