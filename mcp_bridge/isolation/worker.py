"""What runs inside a worker process: one source, and one call after the other. `python -m mcp_bridge.isolation.worker`.

Its standard streams are the line to the bridge; what tools print goes to stderr, and they read nothing.
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
"""A call has one thread; what it leaves behind when it is given up may keep others for a moment."""
_PAUSE = 0.02
"""Seconds between two looks at threads that go on."""


class Completer:
    """A function that completes an argument, as something that can be called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.handler = adapt_completion(function)


class Inside:
    """A source, and the calls of what it offers."""

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
        says, heard = anyio.create_memory_object_stream[Json](math.inf)
        self._link.listen(
            lambda message: _soon(soon, partial(says.send_nowait, message)), partial(_soon, soon, says.close)
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._source, order)
            async for message in heard:
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
        """Carry out a call: whatever it does, something is answered."""
        number = message["id"]
        system.allow_cpu(message["cpu"])
        answer: Json = {"error": {"exception": "Cancelled", "text": "the call was given up"}}
        with anyio.CancelScope() as scope:
            self._running[number] = scope
            answer = await self._caught(message)
        while self._threads.stuck:  # noqa: ASYNC110 - a thread that goes on does not say when it ends
            await anyio.sleep(_PAUSE)
        del self._running[number]
        line = _line({"say": "result", "id": number}, answer)
        if len(line) > LINE:
            line = _line({"say": "result", "id": number}, {"error": from_error(too_large())})
        self._link.write(line)

    async def _caught(self, message: Json) -> Json:
        """What a call answers or raises. Only its being given up gets any further."""
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
        answer = await prepared.run(message["arguments"], ctx, self._threads)
        if isinstance(answer, NeedsInput):
            return {"needs": from_needs(answer)}
        try:
            result = self._reads(kind, name, part, answer)
            if _length(result) > LINE:  # written as JSON it would take many times as much memory
                raise too_large()
            return {"result": from_result(result, of_prompt=kind == "prompts" and not part)}
        except Unreadable as error:
            return {"unreadable": str(error)}

    def _reads(self, kind: Kind, name: str, part: str, answer: Any) -> Any:
        if part or kind == "tools":
            return to_result(answer)
        if kind == "prompts":
            return to_result(to_messages(answer))
        return to_result(to_contents(answer, "", self._entries[kind, name].mime_type))

    def _ready(self, kind: Kind, name: str, part: str) -> Prepared:
        entry = self._entries.get((kind, name))
        if entry is None:
            raise ToolUnavailable(f"'{name}' is no longer there. List what there is again.")
        prepared = self._prepared.get((kind, name, part))
        if prepared is None:
            prepared = Prepared(Completer(entry.completions[part]) if part else entry)
            self._prepared[kind, name, part] = prepared
        return prepared


class ToBridge(logging.Handler):
    """A log handler: the bridge writes the log, because it knows the secrets."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record."""
        with suppress(Exception):  # a record that cannot be written is none of the tool's business
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
    """What a call raised; without memory nothing can be trusted any more, so that the worker has to go."""
    if isinstance(error, MemoryError):
        return {"crash": f"needed more than {limits.memory >> 20} MiB of memory"}
    if isinstance(error, CallError):
        return {"error": from_error(error)}
    return {"error": from_error(error), "notes": "".join(traceback.format_exception(error))}


def _length(result: Any) -> int:
    """How long an answer surely is, where that can be had at once."""
    items = result.content if isinstance(result.content, list | tuple) else [result.content]
    parts = [result.output, *(getattr(item, name, "") for item in items for name in ("text", "data", "content"))]
    return sum(len(part) for part in parts if isinstance(part, str | bytes))


def _line(head: Json, body: Json) -> bytes:
    """A message as a line, whatever a tool has made of it."""
    try:
        return orjson.dumps({**head, **body}) + b"\n"
    except (TypeError, ValueError, RecursionError):
        cleaned = {key: _text(value) for key, value in body.items()} if "text" in body else {}
        broken = {"error": {"exception": "ValueError", "text": "the answer cannot be written as JSON"}}
        return orjson.dumps({**head, **(cleaned or broken)}) + b"\n"


def _text(value: Any) -> Any:
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _soon(soon: Soon, function: Callable[[], Any]) -> None:
    with suppress(RuntimeError):  # the loop has ended
        soon(function)


def main() -> None:
    """Be a worker. Its order is the first line of its input."""
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
