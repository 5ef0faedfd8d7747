"""IsolatedCall: the context of a call inside a worker. It sends requests to the bridge, which has the client."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from mcp_bridge._contracts.errors import CallError, InvalidAnswer, QuestionExpired
from mcp_bridge._contracts.log_levels import Level, check_level
from mcp_bridge._contracts.question import Form, Question
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.session_state import StateValues, encode_value
from mcp_bridge._contracts.tool import ToolEntry, ToolResult
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._isolation.codec import (
    InvalidFormData,
    Json,
    decode_answer,
    decode_error,
    decode_result,
    encode_error,
    encode_question,
    encode_result,
)
from mcp_bridge._isolation.order import CONTEXT_FIELDS
from mcp_bridge._isolation.worker_link import WorkerLink
from mcp_bridge._protocol.wire.values import to_plain, to_result
from mcp_bridge._runtime.thread_pool import ThreadPool
from mcp_bridge._runtime.tracebacks import format_exception

MAX_TRIES = 3
"""The number of answers after which a question fails, because its Python type rejects all of them."""


class IsolatedCall(RunningCall):
    """A running call, as its tool sees it inside a worker. `run` is the number of a nested run (`NestedRuns`)."""

    __slots__ = (
        "_attempt", "_call", "_end", "_idempotency_key", "_link", "_run", "_scope", "_state_key", "_threads",
    )  # fmt: skip

    def __init__(self, link: WorkerLink, call: int, context: Json, threads: ThreadPool, run: int | None = None) -> None:
        super().__init__(**{name: context[name] for name in (*CONTEXT_FIELDS, "meta", "capabilities")})
        self._state_key: str = context["state_key"]
        self._attempt: int = context["attempt"]
        self._idempotency_key: str | None = context["idempotency_key"]
        self._link = link
        self._call = call
        self._run = run
        self._threads = threads
        self.answers = {key: decode_answer(answer) for key, answer in context["answers"].items()}
        self.state = context["state"]
        self._end: float | None = None
        self._scope: anyio.CancelScope | None = None
        self._set_time_left(context["left"])

    @property
    def state_key(self) -> str:
        return self._state_key

    @property
    def attempt(self) -> int:
        return self._attempt

    @property
    def idempotency_key(self) -> str | None:
        return self._idempotency_key

    @property
    def deadline(self) -> float | None:
        return self._end

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self._notify_bridge("progress", progress=to_plain(progress), total=to_plain(total), message=to_plain(message))

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Send the client a log message. Raises ValueError for an unknown level."""
        check_level(level)
        self._notify_bridge("message", level=level, data=to_plain(data), logger=to_plain(logger))

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        """Ask several questions at once. Raises as `ask` does."""
        answers: dict[str, Any] = {}
        problems: dict[str, list[str]] = {}
        for _ in range(MAX_TRIES):
            open_questions = {key: question for key, question in questions.items() if key not in answers}
            encoded_questions = {}
            for key, question in open_questions.items():
                encoded_questions[key] = encode_question(_add_problems(question, problems.get(key, [])))
            reply = await self._ask_bridge("put", questions=encoded_questions)
            problems = {}
            for key, answer in reply["answer"].items():
                try:
                    answers[key] = decode_answer(answer, open_questions[key])
                except InvalidFormData as error:
                    # The bridge has checked the answer by the schema, but only the worker has the Python type.
                    problems[key] = error.problems
            if not problems:
                return {key: answers[key] for key in questions}
        raise InvalidAnswer(details=list(chain.from_iterable(problems.values())))

    async def close_stream(self) -> None:
        self._notify_bridge("close stream")

    def tools(self) -> Sequence[ToolEntry]:
        """Return the published tools for `invoke`."""
        reply = self._link.send_request({"id": self._call, "what": "tools"}).result()
        return [ToolEntry(handler=_reject_local_call, **entry) for entry in reply["answer"]]

    async def invoke(self, name: str, arguments: Any = None) -> ToolResult:
        """Call another published tool. Raises ToolNotFound if no tool has this name."""
        reply = await self._ask_bridge("invoke", name=name, arguments=to_plain(arguments))
        return decode_result(reply["answer"])

    async def fetch_resource(self, uri: str) -> ToolResult:
        """Read a published resource. Raises ResourceNotFound."""
        reply = await self._ask_bridge("read", uri=uri)
        return decode_result(reply["answer"])

    def open_session_state(self) -> StateValues:
        """Return the values of the session. The bridge stores them."""
        return WorkerState(self._ask_bridge)

    async def invoke_entry(self, entry: ToolEntry, arguments: Any = None, known_as: str = "") -> ToolResult:
        """Call a tool of this process in the pipeline of the bridge.

        The bridge orders each run of the tool. With policies such as `retry`, there may be none, or several.
        """
        reply = await self._ask_bridge(
            "begin",
            name=entry.name_in_source,
            schema=to_plain(entry.input_schema),
            arguments=to_plain({} if arguments is None else arguments),
        )
        while "run" in reply["answer"]:
            outcome = await self._run_entry(PreparedEntry(entry), reply["answer"])
            reply = await self._ask_bridge("continue", run=reply["answer"]["run"], **outcome)
        if "error" in reply["answer"]:
            raise decode_error(reply["answer"]["error"])
        return decode_result(reply["answer"]["result"])

    async def _run_entry(self, prepared: PreparedEntry, order: Json) -> Json:
        ctx = IsolatedCall(self._link, self._call, order["context"], self._threads, order["run"])
        try:
            with ctx._limit_time():
                value = await prepared.run(order["arguments"], ctx, self._threads)
                return {"result": encode_result(to_result(value))}
            # The time limit has passed. The bridge knows that, and ignores the error.
            return {"error": encode_error(TimeoutError())}
        except Exception as error:
            notes = "" if isinstance(error, CallError) else format_exception(error)
            return {"error": encode_error(error), "notes": notes}

    def resource_updated(self, uri: str) -> None:
        """Notify subscribers of a change of a resource. Any thread may call this."""
        self._link.send_message({"say": "updated", "uri": uri})

    def _notify_bridge(self, event: str, **data: Any) -> None:
        self._link.send_message({"say": event, "id": self._call, **data})

    async def _ask_bridge(self, what: str, **data: Any) -> Any:
        request = {"id": self._call, "within": self._run, "what": what, **data}
        # The time limit may pause during the request, for example while a user is asked. Only the bridge knows that,
        # and its reply has the time that is left.
        if self._scope is not None:
            self._scope.deadline = math.inf
        try:
            reply = await asyncio.wrap_future(self._link.send_request(request))
        except QuestionExpired:
            # If the call is being cancelled, its code receives the cancellation instead of this error.
            await checkpoint()
            raise
        self._set_time_left(reply["left"])
        return reply

    def _limit_time(self) -> anyio.CancelScope:
        """Return the scope of a nested run. It ends when the bridge stops waiting for the run."""
        self._scope = anyio.CancelScope(deadline=math.inf if self._end is None else self._end)
        return self._scope

    def _set_time_left(self, seconds: float | None) -> None:
        if seconds is None:
            self._end, deadline = None, math.inf
        else:
            self._end = deadline = anyio.current_time() + seconds
        if self._scope is not None:
            self._scope.deadline = deadline


class WorkerState:
    """The state of the session (`StateValues`), which the bridge stores. `ask` sends a request to the bridge."""

    def __init__(self, ask: Callable[..., Awaitable[Any]]) -> None:
        self._ask = ask

    async def read_value(self, key: str) -> Any:
        reply = await self._ask("read state", key=key)
        return reply["answer"]

    async def write_value(self, key: str, value: Any) -> None:
        await self._ask("write state", key=key, value=encode_value(key, value))

    async def delete_value(self, key: str) -> None:
        await self._ask("delete state", key=key)


def _add_problems(question: Question, problems: list[str]) -> Question:
    if not problems or not isinstance(question, Form):
        return question
    return Form(f"{question.message}\n\nThe last answer was not valid: {'; '.join(problems)}", question.schema)


def _reject_local_call(_: Any) -> Any:
    raise RuntimeError("this tool runs in another process. Call it through ctx.invoke")
