"""`call`: one tool, once, through the same pipeline as any client's call."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge.app.bridge import Bridge
from mcp_bridge.cli.exits import INTERRUPTED, Exit, escaped, say
from mcp_bridge.cli.target import load
from mcp_bridge.contracts.context import CallContext
from mcp_bridge.contracts.errors import ConfigError
from mcp_bridge.contracts.levels import Level, check_level
from mcp_bridge.contracts.tool import ToolCall, ToolResult
from mcp_bridge.runtime.descriptors import private
from mcp_bridge.transports.ends import on_signals
from mcp_bridge.wire.content import block
from mcp_bridge.wire.values import plain, text_of


class ShownContext(CallContext):
    """A call whose progress is a bar on the terminal, which appears with the first progress; elsewhere a line each.

    What it logs is a line each. Nobody is asked here: a tool that has questions needs a client.
    """

    __slots__ = ("_bar", "_said", "_task")

    def __init__(self) -> None:
        super().__init__(request_id="cli")
        self._bar: Any = None
        self._task: Any = None
        self._said = ""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Draw the bar, or say what is new."""
        if not sys.stderr.isatty():
            self._say(f"{message or 'progress'} ({progress:g}{'' if total is None else f'/{total:g}'})")
            return
        if self._bar is None:
            self._bar = _bar()
            self._task = self._bar.add_task("")
        self._bar.update(self._task, completed=progress, total=total, description=escaped(message or ""))

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Say it, whatever its level. Raises ValueError for what is none."""
        check_level(level)
        say(escaped(f"{level}: {text_of(plain(data))}"))

    def _say(self, line: str) -> None:
        if line != self._said:
            self._said = line
            say(escaped(line))

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


def call(name: str, given: Sequence[str], path: Path | None, *, arguments: str | None, as_json: bool) -> None:
    """Call a tool and print its answer (stdout); a failure goes to stderr with exit code 1.

    Arguments come as `key=value`, as one JSON object in their place, or as `--arguments JSON`.
    """
    if arguments is None and len(given) == 1 and given[0].lstrip().startswith("{"):
        arguments, given = given[0], []
    if given and arguments is not None:
        problem = f"found both --arguments and '{given[0]}'"
        raise ConfigError(problem, where="arguments", hint="Write key=value, or all of them as --arguments JSON")
    data = _json(arguments) if arguments is not None else None
    with private():  # stdout is for the answer alone
        result = anyio.run(_call, load(path).bridge, name, given, data)
    _tell(result, as_json=as_json)


def _tell(result: ToolResult | None, *, as_json: bool) -> None:
    if result is None:
        raise KeyboardInterrupt
    if as_json:
        print(json.dumps(_report(result), indent=2, ensure_ascii=False))
    elif result.is_error:
        say(result.error_text)
    else:
        _print(result)
    raise SystemExit(Exit.FAILED if result.is_error else Exit.OK)


async def _call(bridge: Bridge, name: str, given: Sequence[str], arguments: Any) -> ToolResult | None:
    """The result, None when a signal came first. Raises ToolNotFound."""
    async with bridge.running():
        await bridge.started()
        entry = bridge.registry.get(name)
        if entry is None:
            return await bridge.registry.dispatch(ToolCall(id="cli", name=name), CallContext())  # it knows the nearest
        properties = entry.input_schema.get("properties", {})
        data = arguments if arguments is not None else dict(_pair(item, properties) for item in given)
        return await _interruptible(bridge, ToolCall(id="cli", name=name, arguments=data))


async def _interruptible(bridge: Bridge, call: ToolCall) -> ToolResult | None:
    """A signal cancels the call's surroundings, so no tool can mistake it; a second one does not wait for the tool."""
    result: ToolResult | None = None
    with contextlib.closing(ShownContext()) as ctx:
        async with anyio.create_task_group() as tasks:
            await tasks.start(on_signals, tasks.cancel_scope.cancel, partial(os._exit, INTERRUPTED))
            result = await bridge.registry.dispatch(call, ctx)
            tasks.cancel_scope.cancel()
    return result


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.start()
    return bar


def _json(text: str) -> Any:
    try:
        return json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        hint = 'Write --arguments \'{"name": "value"}\', or - to read standard input'
        raise ConfigError(f"not JSON: {error}", where="--arguments", hint=hint) from error


def _pair(item: str, properties: Any) -> tuple[str, Any]:
    """`key=value`: text where the schema says text, else JSON where it is JSON, else text."""
    key, equals, value = item.partition("=")
    if not equals or not key:
        hint = "Write key=value, or all of them as --arguments JSON"
        raise ConfigError(f"'{item}' is not key=value", where="arguments", hint=hint)
    schema = properties.get(key) if isinstance(properties, dict) else None
    if isinstance(schema, dict) and schema.get("type") == "string":
        return key, value
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _report(result: ToolResult) -> dict[str, Any]:
    report: dict[str, Any] = {"ok": bool(result.success), "output": result.output}
    if result.content is not None:
        report["content"] = [block(item, "") for item in result.content]
    if result.is_error:
        report |= {"error": result.error_text, "code": result.code}
    return report | {"duration_ms": result.duration_ms}


def _print(result: ToolResult) -> None:
    if result.content is not None:
        for item in result.content:
            made = block(item, "")
            print(made["text"] if made["type"] == "text" else json.dumps(made))
    elif result.output is not None:
        print(text_of(result.output))
