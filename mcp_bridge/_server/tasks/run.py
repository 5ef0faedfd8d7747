"""TaskRun: runs one call as a task, whose progress and questions are part of its state.

An engine (`_storage/engines`) keeps the state, and runs and retries the task. Clients fetch the state with tasks/get.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import anyio
from anyio.lowlevel import current_token

from mcp_bridge._contracts.errors import Overloaded, ToolCrashed, ToolFailed, ToolTimeout, ToolUnavailable
from mcp_bridge._contracts.jsonrpc import RpcError
from mcp_bridge._contracts.store import Store
from mcp_bridge._contracts.tasks import TaskOrder, TaskState, TaskStatus
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._engine.pipeline import Pipeline
from mcp_bridge._engine.prepared import PreparedEntry
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._protocol.peer.connection import IncomingRequest, Message, MessageStream, report_failure
from mcp_bridge._runtime.cancellation import is_being_cancelled
from mcp_bridge._server.calls.context import ServedCall
from mcp_bridge._server.questions.pending import AnswerRecord, PendingQuestion
from mcp_bridge._server.questions.requests import QuestionRequest
from mcp_bridge._server.requests import Request

if TYPE_CHECKING:
    from mcp_bridge._policies.approvals.desk import QuestionDesk

RETRIED_CODES = frozenset(error.code for error in (Overloaded, ToolCrashed, ToolFailed, ToolTimeout, ToolUnavailable))
"""The codes of failures after which a task is retried. A ToolError is not a failure, but the result of the tool."""
RUNS = "mcp-bridge/runs"
"""The key in `_meta` for the number of runs of a task that has run more than once."""

logger = logging.getLogger("mcp_bridge.tasks")


class NoStream(MessageStream):
    """The stream of a request without a client. It drops all messages."""

    def send(self, message: Message) -> None:
        pass


def restore_request(order: TaskOrder) -> IncomingRequest:
    """Return the request of a task, without a stream."""
    return IncomingRequest(
        order.request_id, "tools/call", order.params, NoStream(), principal=order.principal, client=order.client
    )


class TaskCall(ServedCall):
    """The context of a call in a task. Progress goes to the state of the task. There are no log messages."""

    __slots__ = ("_run",)

    def __init__(
        self,
        run: TaskRun,
        request: Request,
        registry: ToolRegistry,
        get_store: Callable[[], Store] | None,
        desk: QuestionDesk | None,
    ) -> None:
        super().__init__(request, registry, get_store, desk)
        self._run = run
        self.set_request(None)
        self.ask_through(run)

    @property
    def is_task(self) -> bool:
        return True

    @property
    def idempotency_key(self) -> str:
        return sha256(self._run.order.id.encode()).hexdigest()

    @property
    def attempt(self) -> int:
        return self._run.order.run

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Record the progress in the state of the task. A value that does not increase is dropped."""
        message = self.filter_message(message)
        if math.isfinite(progress) and (self._progress is None or progress > self._progress):
            self._progress = progress
            self._observe_progress(progress, total, message)
            self._run.report_progress(progress, total, message)


class TaskRun:
    """One call in a task (a `RunnableTask`), and the channel for its questions.

    Args:
        order: The request of the task.
        execute: Serves the request. It runs the call with `run_in_pipeline` of this object. Raises RpcError.
        listener: Called after each change of the state.
        registry: Runs the calls that the call makes.
        pipeline: The pipeline of the call, with the time limit of tasks.
        get_store: Returns the store for the state of sessions.
        desk: Asks users on the page if the client cannot ask them.
    """

    def __init__(
        self,
        order: TaskOrder,
        execute: Callable[[TaskRun], Awaitable[Mapping[str, Any]]],
        listener: Callable[[], None],
        *,
        registry: ToolRegistry,
        pipeline: Pipeline,
        get_store: Callable[[], Store] | None = None,
        desk: QuestionDesk | None = None,
    ) -> None:
        self.order = order
        self.state = TaskState(updated=order.created)
        self.loop: object = current_token()
        self._execute = execute
        self._listener = listener
        self._registry = registry
        self._pipeline = pipeline
        self._get_store = get_store
        self._desk = desk
        self._scope = anyio.CancelScope()
        self._pending: dict[str, PendingQuestion] = {}
        self._records: list[AnswerRecord] = []
        # The answers in the request. They settle questions to which the author gave a key.
        self._early_answers = dict(order.params.get("inputResponses") or {})
        # All names that questions have had. Each is used once, so that a late answer cannot meet another question.
        self._names: set[str] = set()
        # The text of the last failure, if the call may run again.
        self._failure = ""

    async def run_to_end(self) -> float | None:
        """Run the call to a final state. Return None, or the seconds after which the engine has to run it again."""
        try:
            with self._scope:
                result = await self._execute(self)
                if self._failure and not self.state.is_final:
                    delay = self.order.compute_delay()
                    if delay is not None:
                        self._report_failure(delay)
                        return delay
                self._finish("completed", result=result)
        except RpcError as error:
            self._finish("failed", error)
        except Exception as error:
            self._finish("failed", report_failure("The task", error))
        except anyio.get_cancelled_exc_class() as error:
            if is_being_cancelled(error):
                raise
            # The code of the call has cancelled its own task.
            self._finish("failed", report_failure("The task", error))
        finally:
            for pending in self._pending.values():
                # On trio, a thread that has asked is not cancelled with the task, and still waits.
                pending.expire()
        return None

    async def run_in_pipeline(self, prepared: PreparedEntry, call: ToolCall, request: Request) -> ToolResult:
        """Run the call in the pipeline of tasks."""
        context = TaskCall(self, request, self._registry, self._get_store, self._desk)
        context.pipeline = self._pipeline
        context.caller = self._registry
        result = await self._pipeline.compose(prepared)(call, context)
        self._failure = result.error_text if result.code in RETRIED_CODES else ""
        return result

    def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        text = message
        if not text:
            text = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
        self._change(progress=(progress, total, message), message=text)

    def _report_failure(self, delay: float) -> None:
        attempts = f"attempt {self.order.failures + 1} of {self.order.retries + 1}"
        name = self.order.params["name"]
        logger.warning("a task of '%s' failed in %s, and is retried in %g s", name, attempts, delay)
        self._change(message=f"{attempts.capitalize()} failed, the next one starts in {delay:g} s: {self._failure}")

    async def put(self, questions: Mapping[str, QuestionRequest], *, needed: bool) -> Mapping[str, Any]:
        """Ask, and wait for the answers. Raises as `CallContext.ask` does."""
        new_questions = {key: PendingQuestion(key, request, self._records) for key, request in questions.items()}
        try:
            for key, pending in new_questions.items():
                has_early_answer = bool(key) and key in self._early_answers
                if not has_early_answer or not pending.answer(self._early_answers.pop(key)):
                    self._open_question(pending)
            self._show_questions()
            return {key: await pending.wait() for key, pending in new_questions.items()}
        finally:
            self._pending = {
                name: question for name, question in self._pending.items() if question not in new_questions.values()
            }
            self._show_questions()

    async def wait_for_late_answer(self, question: QuestionRequest) -> Any:
        """Return None, because no answer can arrive for a withdrawn question of a task."""
        return None

    async def wait_until_owned(self) -> None:
        """Do nothing. A task runs on one instance at a time, and the engine delivers answers there."""

    def deliver(self, responses: Mapping[str, Any]) -> None:
        """Accept answers to open questions, and ignore others. A question with an invalid answer is asked again."""
        for name in [name for name in self._pending if name in responses]:
            pending = self._pending.pop(name)
            if not pending.answer(responses[name]):
                self._open_question(pending)
        self._show_questions()

    def cancel_run(self) -> None:
        """Cancel the call. Its state is final immediately, even if its code ignores the cancellation."""
        self._finish("cancelled")
        self._scope.cancel()

    def _open_question(self, pending: PendingQuestion) -> None:
        """Open a question under a new name."""
        name = pending.key
        count = len(self._names)
        # An answer to a question of an earlier run may still arrive.
        if self.order.run > 1:
            name = f"{name or 'q'}-run{self.order.run}"
        while not name or name in self._names:
            count += 1
            name = f"{pending.key or 'q'}-{count}"
        self._names.add(name)
        self._pending[name] = pending

    def _show_questions(self) -> None:
        requests = {name: pending.to_mcp() for name, pending in self._pending.items()}
        if requests != self.state.requests:
            self._change(status="input_required" if requests else "working", requests=requests)

    def _finish(
        self, status: TaskStatus, error: RpcError | None = None, *, result: Mapping[str, Any] | None = None
    ) -> None:
        if result is not None and self.order.run > 1:
            result = {**result, "_meta": {**(result.get("_meta") or {}), RUNS: self.order.run}}
        changes: dict[str, Any] = {"status": status, "result": result, "requests": {}}
        if error is not None:
            changes |= {"error": error.to_json(), "message": error.message}
        self._change(**changes)

    def _change(self, **changes: Any) -> None:
        if not self.state.is_final:
            self.state = replace(self.state, updated=time.time(), **changes)
            self._listener()
