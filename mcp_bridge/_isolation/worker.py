"""The program of a worker process: runs one source, and its calls one after the other.

The bridge starts `python -m mcp_bridge._isolation.worker`. The standard streams of the process are its connection to
the bridge. What tools print goes to stderr, and their standard input is empty.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
from anyio.abc import TaskGroup

from mcp_bridge._contracts.errors import CallError, SourceError, ToolUnavailable
from mcp_bridge._contracts.handlers import NeedsInput
from mcp_bridge._contracts.source import Offer, Source, SourceContext, SourceServices
from mcp_bridge._engine.plugins import load_source_type
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._engine.selection import Selection
from mcp_bridge._isolation import worker_system
from mcp_bridge._isolation.codec import Json, encode_error, encode_needs, encode_result
from mcp_bridge._isolation.offer_codec import EntryKind, encode_offer, index_entries
from mcp_bridge._isolation.order import MAX_WORKER_LINE, WorkerLimits, WorkerOrder, make_size_error
from mcp_bridge._isolation.worker_context import IsolatedCall
from mcp_bridge._isolation.worker_link import WorkerLink
from mcp_bridge._json_schema.callables import adapt_completion
from mcp_bridge._json_schema.size_limits import has_too_many_values
from mcp_bridge._protocol.wire.messages import to_messages
from mcp_bridge._protocol.wire.resource_contents import to_contents
from mcp_bridge._protocol.wire.values import Unreadable, to_result
from mcp_bridge._runtime import uncaught_errors
from mcp_bridge._runtime.cancellation import CancellationWatch, is_being_cancelled
from mcp_bridge._runtime.event_loop import make_loop_factory
from mcp_bridge._runtime.exact_json import dump_json
from mcp_bridge._runtime.stdio_descriptors import reserve_stdio
from mcp_bridge._runtime.third_party import unwrap_group
from mcp_bridge._runtime.thread_pool import CallSoon, ThreadPool, make_call_soon
from mcp_bridge._runtime.tracebacks import format_exception
from mcp_bridge._version import __version__

_THREADS = 8
"""The maximum number of threads for handlers. A call needs one, and cancelled calls may keep others for a moment."""
_CHECK_INTERVAL = 0.02
"""Seconds between two checks whether threads of a cancelled call still run."""


class SourceRunner:
    """Runs a source and the calls of its entries."""

    def __init__(self, link: WorkerLink, limits: WorkerLimits, *, is_contained: bool) -> None:
        self._link = link
        self._limits = limits
        self._is_contained = is_contained
        self._threads = ThreadPool(_THREADS)
        # The entries of the last offer by kind and name, and those that were called, also by the completed argument.
        self._entries: dict[tuple[EntryKind, str], Any] = {}
        self._prepared: dict[tuple[str, str, str], PreparedEntry] = {}
        # The scopes of calls by their ids.
        self._running: dict[int, anyio.CancelScope] = {}
        # In a container, the processes that already run before the first call.
        self._idle_processes: frozenset[Any] | None = None

    async def run(self, order: WorkerOrder) -> None:
        """Run the source of the order until the bridge ends the connection."""
        call_soon = make_call_soon()
        async with anyio.create_task_group() as tasks:
            self._link.listen(
                lambda message: _run_soon(call_soon, partial(self._handle_message, message, tasks)),
                partial(_run_soon, call_soon, tasks.cancel_scope.cancel),
            )
            tasks.start_soon(self._run_source, order)
            await anyio.sleep_forever()

    def _handle_message(self, message: Json, tasks: TaskGroup) -> None:
        if message["do"] == "call":
            # The scope exists before the task of the call begins, because a cancellation may arrive earlier.
            scope = self._running[message["id"]] = anyio.CancelScope()
            tasks.start_soon(self._run_call, message, scope)
        elif message["id"] in self._running:
            self._running[message["id"]].cancel()

    async def _run_source(self, order: WorkerOrder) -> None:
        try:
            source = _build_source(order)
            selection = Selection.restore(order.selection)
            source.attach(SourceServices(selection=selection, hide_secrets=self._report_secrets))
            await source.run(self._publish_offer)
        except Exception as group:
            error = unwrap_group(group)
            problem = str(error)
            if not isinstance(error, SourceError):
                problem = f"source '{order.name}': {type(error).__name__}: {error}"
            self._link.send_message({"say": "failed", "problem": problem})

    def _publish_offer(self, offer: Offer) -> None:
        self._entries = index_entries(offer)
        self._prepared = {}
        if self._is_contained and self._idle_processes is None:
            self._idle_processes = worker_system.list_processes(os.getppid())
        self._link.send_message({"say": "offer", **encode_offer(offer)})

    def _report_secrets(self, secrets: Iterable[str]) -> None:
        """Send secrets to the bridge, so it can redact them in later messages."""
        self._link.send_message({"say": "secrets", "secrets": list(secrets)})

    async def _run_call(self, message: Json, scope: anyio.CancelScope) -> None:
        """Run a call, and send a result in any case."""
        number, began = message["id"], time.time()
        outcome: Json = {"error": {"exception": "Cancelled", "text": "the call was cancelled"}}
        with scope:
            if not scope.cancel_called:
                outcome = await self._run_safely(message)
        # The bridge sends the next call after the result, so a cancelled call must really have ended.
        while self._threads.stuck:  # noqa: ASYNC110 - the end of a thread is not an event
            await anyio.sleep(_CHECK_INTERVAL)
        # The bridge kills the programs of a cancelled call, but it cannot see those in a container.
        if scope.cancel_called and self._idle_processes is not None:
            worker_system.kill_started_since(os.getppid(), began, self._idle_processes)
        del self._running[number]
        line = _encode_line({"say": "result", "id": number}, outcome)
        if len(line) > MAX_WORKER_LINE or has_too_many_values(line):
            line = _encode_line({"say": "result", "id": number}, {"error": encode_error(make_size_error())})
        self._link.send_line(line)

    async def _run_safely(self, message: Json) -> Json:
        """Return the result or the error of a call as JSON. Only the cancellation by the bridge is raised."""
        watch = CancellationWatch()
        try:
            return await watch.run(self._invoke_handler(message))
        except BaseException as error:
            # A cancellation by the bridge ends the task. Anything else is an error of the tool.
            if is_being_cancelled(error):
                raise
            return _encode_failure(error, self._limits)
        finally:
            await watch.reset()

    async def _invoke_handler(self, message: Json) -> Json:
        kind, name, argument_name = message["kind"], message["name"], message["argument"]
        prepared = self._prepare_entry(kind, name, argument_name)
        ctx = IsolatedCall(self._link, message["id"], message["context"], self._threads)
        value = await prepared.run(message["arguments"], ctx, self._threads)
        if isinstance(value, NeedsInput):
            return {"needs": encode_needs(value)}
        try:
            if kind == "tools" or argument_name:
                result = to_result(value)
            elif kind == "prompts":
                result = to_result(to_messages(value))
            else:
                result = to_result(to_contents(value, "", self._entries[kind, name].mime_type))
            # Encoding takes many times the memory of a result, so one that is certainly too long is not encoded.
            if _estimate_length(result) > MAX_WORKER_LINE:
                raise make_size_error()
            return {"result": encode_result(result, of_prompt=kind == "prompts" and not argument_name)}
        except Unreadable as error:
            return {"unreadable": str(error)}

    def _prepare_entry(self, kind: EntryKind, name: str, argument_name: str) -> PreparedEntry:
        entry = self._entries.get((kind, name))
        if entry is None:
            raise ToolUnavailable(f"'{name}' no longer exists. List the available entries again.")
        prepared = self._prepared.get((kind, name, argument_name))
        if prepared is None:
            if argument_name:
                entry = SimpleNamespace(handler=adapt_completion(entry.completions[argument_name]))
            prepared = PreparedEntry(entry)
            self._prepared[kind, name, argument_name] = prepared
        return prepared


class BridgeLogHandler(logging.Handler):
    """A log handler that sends records to the bridge. The bridge redacts secrets in them."""

    def __init__(self, link: WorkerLink) -> None:
        super().__init__()
        self._link = link

    def emit(self, record: logging.LogRecord) -> None:
        # A tool must not fail because of a record that cannot be formatted.
        with suppress(Exception):
            body = {"level": record.levelno, "logger": record.name, "text": self.format(record)}
            self._link.send_line(_encode_line({"say": "log"}, body))


def _build_source(order: WorkerOrder) -> Source:
    source_class = load_source_type(order.type)
    model = source_class.load_options()
    context = SourceContext(
        directory=Path(order.directory),
        watch=order.watch,
        working_dir=Path(order.working_dir),
        uses_roots=order.roots,
    )
    options = model.model_validate(order.options) if model is not None else None
    source = source_class.build(order.name, options, context)
    if order.is_whole:
        source.disable_middleware()
    return source


def _encode_failure(error: BaseException, limits: WorkerLimits) -> Json:
    """Return the error of a call as JSON. After a MemoryError, the worker cannot be trusted, so it is a "crash"."""
    if isinstance(error, MemoryError):
        return {"crash": f"needed more than {limits.memory >> 20} MiB of memory"}
    if isinstance(error, CallError):
        return {"error": encode_error(error)}
    return {"error": encode_error(error), "notes": format_exception(error)}


def _estimate_length(result: Any) -> int:
    """Return a lower bound for the length of an encoded result."""
    items = result.content if isinstance(result.content, list | tuple) else [result.content]
    values = [result.output]
    for item in items:
        values += [getattr(item, name, None) for name in ("text", "data", "content")]
    return sum(len(value) for value in values if isinstance(value, str | bytes))


def _encode_line(head: Json, body: Json) -> bytes:
    """Encode a message. If JSON cannot express the body, the message has an error, or a log record with other text."""
    try:
        return dump_json({**head, **body}) + b"\n"
    except (TypeError, ValueError, RecursionError):
        if "text" in body:
            # The text of a log record may have surrogates.
            body = {**body, "text": body["text"].encode(errors="replace").decode()}
        else:
            body = {"error": {"exception": "ValueError", "text": "the result cannot be written as JSON"}}
        return dump_json({**head, **body}) + b"\n"


def _run_soon(call_soon: CallSoon, function: Callable[[], Any]) -> None:
    # The event loop may have ended.
    with suppress(RuntimeError):
        call_soon(function)


def main() -> None:
    """Run a worker. The first line of its input is the order."""
    with reserve_stdio() as pipes:
        link = WorkerLink(pipes)
        link.send_message({"say": "version", "version": __version__})
        order = link.read_order()
        limits = WorkerLimits(**order["limits"])
        logging.getLogger().addHandler(BridgeLogHandler(link))
        uncaught_errors.install_hooks()
        for name, level in order["levels"].items():
            logging.getLogger(name or None).setLevel(level)
        source_order = WorkerOrder(**order["order"])
        worker_system.apply_limits(limits, is_contained=source_order.is_contained)
        runner = SourceRunner(link, limits, is_contained=source_order.is_contained)
        anyio.run(runner.run, source_order, backend_options={"loop_factory": make_loop_factory()})
    # Threads of amplifier_core crash an interpreter that is being finalized.
    if "amplifier_core" in sys.modules:
        os._exit(0)


if __name__ == "__main__":
    main()
