"""`module validate`: checks a module with the contract suite of its type, in processes that the module may end.

A module can do anything to the process that examines it: exit, block, crash, or write to its channel. So this process
only records outcomes. A `Probe` is a process that tries the rules one after the other. It reports each rule before it
tries it, and the outcome afterwards. If the process ends or is silent in between, the module has broken this rule, and
the next probe continues with the rules that have no outcome. The examination ends after a complete run, after
`MAX_PROCESSES` probes, or when the module breaks one of `NEEDED_RULES`.
"""

from __future__ import annotations

import contextlib
import json
import queue
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Self

from mcp_bridge._cli.exits import exit_with
from mcp_bridge._cli.options import ModuleOptions, check_timeout
from mcp_bridge._cli.output import format_count, print_lines, write_json
from mcp_bridge._contracts.errors import BridgeError, ConfigError
from mcp_bridge._integrations.amplifier.errors import ModuleNotFoundError
from mcp_bridge._integrations.amplifier.validation.structure import ExaminedModule, check_structure, find_module
from mcp_bridge._isolation import worker_system
from mcp_bridge._protocol.line_channel import BlockingLineChannel, InvalidLine
from mcp_bridge._runtime.platform import system
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._runtime.terminal_text import escape_line

START_TIMEOUT = 60.0
"""Seconds in which a process has to start."""
TIMEOUT_MARGIN = 2.0
"""Seconds added to a timeout. The process enforces the timeout of a rule itself, unless the module blocks it."""
GRACE = 2.0
"""Seconds in which a process has to exit after its last report, and its reader thread has to end."""
KILL_TIMEOUT = 25.0
"""Seconds in which the supervisor of the process has to end everything."""
MAX_PROCESSES = 50
"""The maximum number of processes for one module."""
MAX_LINE = 65_536
"""The maximum number of bytes of a line that the process sends."""
STDERR_TAIL = 300
"""The maximum number of characters of stderr that are shown, from its end."""
MESSAGES = frozenset({"rule", "outcome", "kind", "over"})
GARBLED = "the module wrote to the channel of the check"
"""The problem if a message is not one of the process."""
COMMAND = [sys.executable, "-P", "-m", "mcp_bridge._integrations.amplifier.validation.worker"]
STDOUT_RULE = "it_prints_nothing_to_stdout"
NEEDED_RULES = ("it_can_be_imported", "it_mounts_what_its_type_requires")
"""If one of these rules is broken, no other can be checked."""
Json = dict[str, Any]
_SECRET_KEY = re.compile("key|token|secret|passw|credential|auth", re.IGNORECASE)
_LABELS = {"passed": "ok  ", "failed": "FAIL", "skipped": "-   "}


def check_module(options: ModuleOptions) -> None:
    """Check a module. Exit with 1 if it breaks a rule.

    Raises ConfigError if an option is invalid, or the module does not exist.
    """
    check_timeout(options.timeout)
    hint = """Use one JSON object, such as '{"debug": true}'"""
    try:
        config = json.loads(options.config)
    except ValueError as error:
        raise ConfigError(f"invalid JSON: {error}", where="--config", hint=hint) from error
    if not isinstance(config, dict):
        raise ConfigError(f"found {type(config).__name__}", where="--config", hint=hint)
    try:
        subject = find_module(options.module, Path.cwd())
    except ModuleNotFoundError as error:
        hint = "Pass its folder or file, or install it"
        raise ConfigError(str(error), where="MODULE", hint=hint) from error
    examination = ProbedModule(subject, options.type, config, options.timeout)
    examination.run()
    result = Redactor(_list_secrets(config)).redact_value({"module": options.module, **examination.describe()})
    if options.as_json:
        write_json(result)
    else:
        _print_result(result)
    exit_with(ok=result["ok"])


def _list_secrets(value: Any, *, is_secret: bool = False) -> list[str]:
    """List the texts of a configuration below the names of secrets."""
    secrets: list[str] = []
    if isinstance(value, dict):
        for key, item in value.items():
            secrets += _list_secrets(item, is_secret=is_secret or bool(_SECRET_KEY.search(key)))
    elif isinstance(value, list):
        for item in value:
            secrets += _list_secrets(item, is_secret=is_secret)
    elif is_secret and isinstance(value, str):
        secrets.append(value)
    return secrets


def _print_result(result: Json) -> None:
    """Print a line for each rule, and the summary."""
    for outcome in result["rules"]:
        line = f"{_LABELS[outcome['state']]} {outcome['rule']}"
        if outcome["reason"]:
            line += f": {escape_line(outcome['reason'])}"
        print_lines(line)
    module_type = f"{result['type']} (from {result['type_from']})" if result["type"] else "a module of unknown type"
    failures = result["failed"]
    summary = "all rules are followed"
    if failures:
        summary = f"{format_count(len(failures), 'rule')} broken: {', '.join(failures)}"
    print_lines(f"{result['module']}: {module_type}; {summary}")


class Probe:
    """A process that examines a module, and its messages. Raises OSError if it cannot be started."""

    def __init__(self, order: Json, folder: str) -> None:
        self._is_garbled = False
        self._reports: queue.Queue[Any] = queue.Queue()
        self._stderr = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - it is read after the end of the process
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            system.wrap_command(COMMAND),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=folder,
            **system.make_child_options(),
        )
        self._group = system.ProcessGroup(self._process.pid)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        channel = BlockingLineChannel(self._process.stdout.fileno(), self._process.stdin.fileno(), MAX_LINE)
        self._reader = threading.Thread(target=self._receive_reports, args=(channel,), daemon=True)
        self._reader.start()
        channel.send(order)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        if error_type is None:
            self._wait_for_exit(GRACE)
        self.end()
        self._reader.join(GRACE)
        streams = [self._process.stdin, self._stderr]
        # Closing stdout would wait for the reader.
        if not self._reader.is_alive():
            streams.append(self._process.stdout)
        for stream in streams:
            if stream is not None:
                stream.close()

    def receive_report(self, timeout: float) -> Json | None:
        """Return the next message, or None if the process has ended or the module has written to its channel.

        Raises queue.Empty after `timeout` seconds.
        """
        message = self._reports.get(timeout=timeout)
        if message is None:
            self._wait_for_exit(GRACE)
            return None
        if isinstance(message, dict) and message.get("say") in MESSAGES:
            return message
        self._is_garbled = True
        return None

    def end(self) -> None:
        """Let the supervisor end the process. If this takes too long, kill the whole group."""
        if self._process.poll() is None:
            self._group.terminate()
            # The module may have stopped the supervisor.
            self._group.resume()
            self._wait_for_exit(KILL_TIMEOUT)
        self._group.kill()
        self._process.wait()
        self._group.close()

    def describe_end(self) -> str:
        """Describe how the process has ended, with the end of its stderr."""
        end = GARBLED
        if not self._is_garbled:
            end = f"it {worker_system.describe_status(self._process.poll(), sandboxed=False)}"
        self._stderr.seek(0)
        stderr = self._stderr.read().decode(errors="replace").strip()[-STDERR_TAIL:]
        return f"{end}. Its stderr: {stderr}" if stderr else end

    def _receive_reports(self, channel: BlockingLineChannel) -> None:
        try:
            while (message := channel.receive()) is not None:
                self._reports.put(message)
        except InvalidLine:
            self._is_garbled = True
        self._reports.put(None)

    def _wait_for_exit(self, timeout: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)


class ProbedModule:
    """Examines a module until each rule has an outcome. `timeout` is the number of seconds for each rule."""

    def __init__(self, subject: ExaminedModule, module_type: str | None, config: Json, timeout: float) -> None:
        self._subject = subject
        self._config = config
        self._timeout = timeout
        self._outcomes: dict[str, tuple[str, str]] = {}
        self._rule = ""
        self._type = module_type
        self._type_source = "--type" if module_type else ""

    def run(self) -> None:
        """Examine the module. Raises BridgeError if no process can be started."""
        for rule, problem in check_structure(self._subject).items():
            self._record(rule, "failed" if problem else "passed", problem)
        for _ in range(MAX_PROCESSES):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                if self._run_process(folder):
                    break
        self._outcomes.setdefault(STDOUT_RULE, ("passed", ""))

    def describe(self) -> Json:
        """Return the type of the module, and the outcome of each rule."""
        rows = [{"rule": rule, "state": state, "reason": reason} for rule, (state, reason) in self._outcomes.items()]
        failures = [row["rule"] for row in rows if row["state"] == "failed"]
        return {
            "type": self._type,
            "type_from": self._type_source,
            "ok": not failures,
            "failed": failures,
            "rules": rows,
        }

    def _record(self, rule: str, state: str, reason: str) -> None:
        """Record an outcome. A failed rule stays failed, with its first reason."""
        if self._outcomes.get(rule, ("", ""))[0] != "failed":
            self._outcomes[rule] = (state, reason)

    def _run_process(self, folder: str) -> bool:
        """Run one process for the rules without an outcome. Return whether the examination is complete."""
        self._rule = ""
        try:
            probe = Probe(self._to_order(), folder)
        except OSError as error:
            raise BridgeError(f"cannot start a process: {error}") from error
        with probe:
            while True:
                timeout = self._timeout if self._rule else START_TIMEOUT
                try:
                    message = probe.receive_report(timeout + TIMEOUT_MARGIN)
                except queue.Empty:
                    probe.end()
                    return self._fail_rule(f"it blocked the process for {timeout:g} s")
                if message is None:
                    return self._fail_rule(probe.describe_end())
                if message["say"] == "over":
                    return True
                try:
                    self._handle(message)
                except (LookupError, TypeError, ValueError):
                    # The module has written this message to the channel.
                    return self._fail_rule(GARBLED)

    def _to_order(self) -> Json:
        subject = self._subject
        return {
            "id": subject.id,
            "path": str(subject.path) if subject.path is not None else None,
            "point": subject.point.value if subject.point is not None else None,
            "kind": self._type,
            "config": self._config,
            "timeout": self._timeout,
            "tried": list(self._outcomes),
        }

    def _handle(self, message: Json) -> None:
        if message["say"] == "rule":
            self._rule = str(message["rule"])
        elif message["say"] == "outcome":
            self._record(str(message["rule"]), str(message["state"]), str(message["reason"]))
        elif message["say"] == "kind":
            self._type = message["kind"]
            self._type_source = self._type_source or message["origin"]

    def _fail_rule(self, problem: str) -> bool:
        """Record the current rule as broken. Return whether the examination has to end.

        Raises BridgeError if the process has not begun with a rule.
        """
        if not self._rule:
            raise BridgeError(f"the module could not be examined: {problem}")
        self._record(self._rule, "failed", problem)
        return self._rule in NEEDED_RULES
