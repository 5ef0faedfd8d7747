"""A worker process: runs one source, and its calls one after the other. `python -m mcp_bridge.isolation.worker`.

Its standard streams are the connection to the bridge. What tools print goes to stderr, and they read nothing.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import orjson

from mcp_bridge.contracts.errors import CallError, SourceError, ToolUnavailable
from mcp_bridge.contracts.extension import WorkingDirSource
from mcp_bridge.contracts.offer import Offer
from mcp_bridge.contracts.question import NeedsInput
from mcp_bridge.isolation import system
from mcp_bridge.isolation.inside import InnerContext
from mcp_bridge.isolation.link import Link
from mcp_bridge.isolation.offers import Kind, found, from_offer
from mcp_bridge.isolation.order import LINE, Limits, Order, too_large
from mcp_bridge.isolation.words import Json, from_error, from_needs, from_result
from mcp_bridge.pipeline.prepared import Prepared
from mcp_bridge.registry.plugins import source_type
from mcp_bridge.runtime import uncaught_errors
from mcp_bridge.runtime.descriptors import private
from mcp_bridge.runtime.event_loop import being_cancelled, cancelled_itself, lasting, uncancel
from mcp_bridge.runtime.thread_pool import Soon, Threads, from_any_thread
from mcp_bridge.schema.callables import adapt_completion
from mcp_bridge.wire.contents import to_contents
from mcp_bridge.wire.messages import to_messages
from mcp_bridge.wire.values import Unreadable, to_result

_THREADS = 8
"""A call has one thread; a cancelled call may keep others for a moment."""
_PAUSE = 0.02
"""Seconds between two checks for threads that are still running."""


class Completer:
    """A function that completes an argument, in the shape of an entry."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.handler = adapt_completion(function)


class Inside:
    """Runs a source and the calls of its entries."""

    def __init__(self, link: Link, limits: Limits) -> None:
        self._link = link
        self._limits = limits
        self._threads = Threads(_THREADS)
        self._entries: dict[tuple[Kind, str], Any] = {}
        self._prepared: dict[tuple[str, str, str], Prepared] = {}
        self._running: dict[int, anyio.CancelScope] = {}

    async def run(self, order: Order) -> None:
        """Run the source until the bridge has gone."""
        soon = from_any_thread()
        sender, messages = anyio.create_memory_object_stream[Json](math.inf)
        self._link.listen(
            lambda message: _soon(soon, partial(sender.send_nowait, message)), partial(_soon, soon, sender.close)
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._source, order)
            async for message in messages:
                if message["do"] == "call":
                    tasks.start_soon(self._call, message)
                elif message["id"] in self._running:
                    self._running[message["id"]].cancel()
            tasks.cancel_scope.cancel()

    async def _source(self, order: Order) -> None:
        try:
            await _built(order).run(self._publish)
        except Exception as error:
            self._link.tell({"say": "failed", "problem": _problem(order, error)})

    def _publish(self, offer: Offer) -> None:
        self._entries, self._prepared = found(offer), {}
        self._link.tell({"say": "offer", **from_offer(offer)})

    async def _call(self, message: Json) -> None:
        """Run a call, and send a result whatever it does."""
        number = message["id"]
        system.allow_cpu(message["cpu"])
        outcome: Json = {"error": {"exception": "Cancelled", "text": "the call was cancelled"}}
        with anyio.CancelScope() as scope:
            self._running[number] = scope
            outcome = await self._caught(message)
        while self._threads.stuck:  # noqa: ASYNC110 - the end of a thread is not an event
            await anyio.sleep(_PAUSE)
        del self._running[number]
        line = _line({"say": "result", "id": number}, outcome)
        if len(line) > LINE:
            line = _line({"say": "result", "id": number}, {"error": from_error(too_large())})
        self._link.write(line)

    async def _caught(self, message: Json) -> Json:
        """Return what a call returns or raises. Only its own cancellation is raised."""
        try:
            return await self._outcome(message)
        except BaseException as error:
            if being_cancelled(error):
                raise
            return _failure(error, self._limits)
        finally:
            if (task := cancelled_itself()) is not None:
                await uncancel(task)

    async def _outcome(self, message: Json) -> Json:
        kind, name, part = message["kind"], message["name"], message["part"]
        prepared = self._ready(kind, name, part)
        ctx = InnerContext(self._link, message["id"], message["context"])
        returned = await prepared.run(message["arguments"], ctx, self._threads)
        if isinstance(returned, NeedsInput):
            return {"needs": from_needs(returned)}
        try:
            result = self._reads(kind, name, part, returned)
            if _length(result) > LINE:  # as JSON it would take many times as much memory
                raise too_large()
            return {"result": from_result(result, of_prompt=kind == "prompts" and not part)}
        except Unreadable as error:
            return {"unreadable": str(error)}

    def _reads(self, kind: Kind, name: str, part: str, returned: Any) -> Any:
        if part or kind == "tools":
            return to_result(returned)
        if kind == "prompts":
            return to_result(to_messages(returned))
        return to_result(to_contents(returned, "", self._entries[kind, name].mime_type))

    def _ready(self, kind: Kind, name: str, part: str) -> Prepared:
        entry = self._entries.get((kind, name))
        if entry is None:
            raise ToolUnavailable(f"'{name}' no longer exists. List the available entries again.")
        prepared = self._prepared.get((kind, name, part))
        if prepared is None:
            prepared = Prepared(Completer(entry.completions[part]) if part else entry)
            self._prepared[kind, name, part] = prepared
        return prepared


class ToBridge(logging.Handler):
    """A log handler that sends records to the bridge, which knows the secrets to redact."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record."""
        with suppress(Exception):  # a tool must not fail because of a record that cannot be formatted
            text = self.format(record)
            self._link.write(_line({"say": "log"}, {"level": record.levelno, "logger": record.name, "text": text}))


def _built(order: Order) -> Any:
    options = source_type(order.type).model_validate(order.options)
    built = options.build(order.name, Path(order.directory), watch=order.watch)
    if isinstance(built, WorkingDirSource):
        built.work_in(Path(order.working_dir), roots=order.roots)
    return built


def _problem(order: Order, error: Exception) -> str:
    return str(error) if isinstance(error, SourceError) else f"source '{order.name}': {type(error).__name__}: {error}"


def _failure(error: BaseException, limits: Limits) -> Json:
    """Return the error of a call as JSON. After a MemoryError the worker cannot be trusted and has to end."""
    if isinstance(error, MemoryError):
        return {"crash": f"needed more than {limits.memory >> 20} MiB of memory"}
    if isinstance(error, CallError):
        return {"error": from_error(error)}
    return {"error": from_error(error), "notes": "".join(traceback.format_exception(error))}


def _length(result: Any) -> int:
    """Return a lower bound of the length of a result that can be had without encoding it."""
    items = result.content if isinstance(result.content, list | tuple) else [result.content]
    parts = [result.output, *(getattr(item, name, "") for item in items for name in ("text", "data", "content"))]
    return sum(len(part) for part in parts if isinstance(part, str | bytes))


def _line(head: Json, body: Json) -> bytes:
    """Return a message as a line; an error if it cannot be encoded."""
    try:
        return orjson.dumps({**head, **body}) + b"\n"
    except (TypeError, ValueError, RecursionError):
        cleaned = {key: _text(value) for key, value in body.items()} if "text" in body else {}
        broken = {"error": {"exception": "ValueError", "text": "the result cannot be written as JSON"}}
        return orjson.dumps({**head, **(cleaned or broken)}) + b"\n"


def _text(value: Any) -> Any:
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _soon(soon: Soon, function: Callable[[], Any]) -> None:
    with suppress(RuntimeError):  # the loop has ended
        soon(function)


def main() -> None:
    """Run a worker, whose order is the first line of its input."""
    with private() as pipes:
        link = Link(pipes)
        first = link.first()
        limits = Limits(**first["limits"])
        logging.getLogger().addHandler(ToBridge(link))
        uncaught_errors.catch()
        for name, level in first["levels"].items():
            logging.getLogger(name or None).setLevel(level)
        system.restrict(limits)
        inside = Inside(link, limits)
        anyio.run(inside.run, Order(**first["order"]), backend_options={"loop_factory": lasting()})
    if "amplifier_core" in sys.modules:  # its threads crash an interpreter that is being finalized
        os._exit(0)


if __name__ == "__main__":
    main()
