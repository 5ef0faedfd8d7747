"""`call`: calls one tool, through the same pipeline as the calls of clients."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import anyio

from mcp_bridge._app.bridge import Bridge
from mcp_bridge._cli import logs
from mcp_bridge._cli.exits import INTERRUPTED, exit_with
from mcp_bridge._cli.options import CallOptions
from mcp_bridge._cli.output import format_json, print_lines, report
from mcp_bridge._cli.schema_values import CallArguments, format_parameters
from mcp_bridge._cli.server_address import ServerAddress, find_address, split_target
from mcp_bridge._cli.target import load_target, run_sources
from mcp_bridge._contracts.errors import ConfigError, InvalidArguments, InvalidOutput
from mcp_bridge._contracts.log_levels import Level, check_level
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._protocol.wire.content import render_block
from mcp_bridge._protocol.wire.protocol_versions import IN_PROCESS
from mcp_bridge._protocol.wire.values import to_plain, to_text
from mcp_bridge._runtime.stdio_descriptors import reserve_stdio
from mcp_bridge._runtime.terminal_text import escape_line
from mcp_bridge._transports.shutdown import handle_signals

if TYPE_CHECKING:
    from mcp_bridge._cli.terminal_prompt import TerminalPrompt
    from mcp_bridge._contracts.question import Question


class TerminalCall(RunningCall):
    """A call from the command line, which shows progress and log messages on stderr.

    At a terminal, progress is a bar, and the user can be asked to fill in a form, to open a page, or to approve the
    call. Other questions raise MissingCapability.
    """

    __slots__ = ("_bar", "_last_line", "_prompt", "_task")

    def __init__(self, prompt: TerminalPrompt | None = None, meta: Mapping[str, Any] | None = None) -> None:
        capabilities = prompt.capabilities if prompt is not None else None
        super().__init__(request_id="cli", capabilities=capabilities, meta=meta)
        self._prompt = prompt
        self._bar: Any = None
        self._task: Any = None
        self._last_line = ""

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        message = self.filter_message(message)
        if not sys.stderr.isatty():
            amount = f"{progress:g}" if total is None else f"{progress:g}/{total:g}"
            line = f"{message or 'progress'} ({amount})"
            if line != self._last_line:
                self._last_line = line
                report(escape_line(line))
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

            columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("")
        self._bar.update(self._task, completed=progress, total=total, description=escape_line(message or ""))

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Report the message at every level. Raises ValueError for an unknown level."""
        check_level(level)
        report(escape_line(f"{level}: {to_text(self.filter_message(to_plain(data)))}"))

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        """Ask at the terminal. Raises MissingCapability without a terminal, and for sampling and roots."""
        self.close()
        answers: dict[str, Any] = {}
        # Time limits pause while the user answers.
        with self.release_holds():
            for key, question in questions.items():
                answer = None
                if self._prompt is not None:
                    answer = await self._prompt.ask_user(question)
                if answer is None:
                    # The base class raises MissingCapability.
                    return await super().put({key: question})
                answers[key] = answer
        return answers

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def call_tool(options: CallOptions) -> None:
    """Call a tool, and print its result on stdout. Report an error on stderr, and exit with 1. Raises ConfigError."""
    logs.configure_logging(options.log_level)
    target, name, words = split_target(options.words, options.file, "tool")
    address = find_address(target, options)
    arguments = CallArguments.read_words(options.arguments, words)
    if address is not None:
        _call_remote(address, name, arguments, as_json=options.as_json)
    # Stdout is only for the result.
    with reserve_stdio(keeps_terminal=True) as pipes:
        bridge = load_target(target).bridge
        prompt = _open_prompt(pipes.source)
        exceptions: dict[str, BaseException] = {}

        def record_exception(error: BaseException, reference: str) -> None:
            exceptions[reference] = error

        bridge.registry.pipeline.on_exception = record_exception
        with logs.delay_start_errors() as release:
            result = anyio.run(_dispatch_call, bridge, name, arguments, prompt, release)
    if result is None:
        raise KeyboardInterrupt
    if options.as_json:
        print(format_json(_describe_result(result, exceptions), indent=2))
    elif result.is_error:
        report(result.error_text)
        entry = bridge.registry.get(name)
        if result.code == InvalidArguments.code and entry is not None:
            report(f"Parameters: {format_parameters(entry.input_schema) or 'none'}")
        lines = _format_result(result)
        # The user can compare a result that does not match its schema with the errors.
        if result.code == InvalidOutput.code and lines:
            report("The result was:", *lines)
    else:
        print_lines(*_format_result(result))
    exit_with(ok=not result.is_error)


def _call_remote(address: ServerAddress, name: str, arguments: CallArguments, *, as_json: bool) -> NoReturn:
    from mcp_bridge._cli.remote import CALL_META, call_remote_tool, format_block

    with contextlib.closing(TerminalCall(_open_prompt(0), CALL_META)) as ctx:
        row = anyio.run(call_remote_tool, address, name, arguments, ctx)
    if as_json:
        print(format_json(row, indent=2))
    elif row["ok"]:
        print_lines(*map(format_block, row["content"]))
    else:
        report(row["error"])
    exit_with(ok=row["ok"])


def _open_prompt(source: int) -> TerminalPrompt | None:
    if not (os.isatty(source) and sys.stderr.isatty()):
        return None
    from mcp_bridge._cli.terminal_prompt import TerminalPrompt

    return TerminalPrompt(source)


async def _dispatch_call(
    bridge: Bridge,
    name: str,
    arguments: CallArguments,
    prompt: TerminalPrompt | None,
    ready: Callable[[], None],
) -> ToolResult | None:
    """Return the result, or None if a signal came first. Calls `ready` after the start. Raises ToolNotFound."""
    async with run_sources(bridge):
        await bridge.wait_for_tool(name)
        if name not in bridge.registry:
            # The error suggests similar names, so it needs those of all tools.
            await bridge.wait_until_started()
        ready()
        entry = bridge.registry.get(name)
        if entry is None and name in bridge.identity.listing.built_in:
            hint = "Call the tool itself by its name, see mcp-bridge list"
            raise ConfigError(f"'{name}' exists only for MCP clients of a running server", where="tool", hint=hint)
        if entry is None:
            # The result names the server of the tool if that is unavailable. Otherwise, ToolNotFound is raised.
            return await bridge.registry.dispatch(ToolCall(id="cli", name=name), RunningCall())
        call = ToolCall(id="cli", name=name, arguments=arguments.parse_pairs(entry.input_schema))
        result = None
        # The first signal cancels the scope around the call, even if the tool catches the cancellation. The second one
        # ends the process.
        with contextlib.closing(TerminalCall(prompt)) as ctx:
            async with anyio.create_task_group() as tasks:
                await tasks.start(handle_signals, tasks.cancel_scope.cancel, partial(os._exit, INTERRUPTED))
                result = await bridge.registry.dispatch(call, ctx)
                tasks.cancel_scope.cancel()
        return result


def _describe_result(result: ToolResult, exceptions: Mapping[str, BaseException]) -> dict[str, Any]:
    from traceback import TracebackException

    from mcp_bridge._runtime.tracebacks import format_exception

    row: dict[str, Any] = {"ok": bool(result.success), "output": result.output}
    if result.content is not None:
        row["content"] = [render_block(item, IN_PROCESS) for item in result.content]
    if result.is_error:
        row |= {"error": result.error_text, "code": result.code}
        for reference, error in exceptions.items():
            # Other exceptions may be those of nested calls, which the tool has handled.
            if reference in result.error_text:
                # `str(error)` could raise an error of the exception's own `__str__`.
                message = str(TracebackException.from_exception(error))
                exception = {"type": type(error).__name__, "message": message, "traceback": format_exception(error)}
                row |= {"reference": reference, "exception": exception}
    row["duration_ms"] = None if result.duration_ms is None else round(result.duration_ms, 3)
    return row


def _format_result(result: ToolResult) -> list[str]:
    lines: list[str] = []
    if result.content:
        for item in result.content:
            block = render_block(item, IN_PROCESS)
            lines.append(block["text"] if block["type"] == "text" else json.dumps(block))
        return lines
    if result.output is None:
        return []
    return [to_text(result.output)]
