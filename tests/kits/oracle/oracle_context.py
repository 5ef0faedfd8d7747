"""The context of a call in the SDK's server: progress, log messages and questions go through the SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel, ConfigDict

from mcp_bridge._contracts.errors import ApprovalDeclined, MissingCapability, ToolUnavailable
from mcp_bridge._contracts.log_levels import LEVELS, Level
from mcp_bridge._contracts.question import Question
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._engine.registry import ToolRegistry
from mcp_bridge._protocol.wire.protocol_versions import STATELESS
from mcp_bridge._server.questions.requests import QuestionRequest, is_capability_missing, merge_capabilities, to_request

SdkRequest = ServerRequestContext[Any, Any]
_REQUESTS: dict[str, Any] = {
    "elicitation/create": types.ElicitRequest,
    "sampling/createMessage": types.CreateMessageRequest,
    "roots/list": types.ListRootsRequest,
}


class RawResult(BaseModel):
    """Any result, without validation."""

    model_config = ConfigDict(extra="allow")


class OracleContext(RunningCall):
    """A call in the SDK's server.

    In the stateless era an unanswered question ends the call: `asked` has the questions, and the call starts again with
    the answers. `level` is the log level of a handshake connection.
    """

    def __init__(self, request: SdkRequest, registry: ToolRegistry, level: str, answers: Mapping[str, Any]) -> None:
        capabilities = request.session.client_capabilities
        super().__init__(
            caller=registry,
            protocol_version=request.protocol_version,
            request_id=str(request.request_id),
            meta=request.meta,
            capabilities=capabilities.model_dump(by_alias=True, exclude_none=True) if capabilities is not None else {},
        )
        self.asked: dict[str, QuestionRequest] = {}
        self._request = request
        self._is_stateless = request.protocol_version == STATELESS
        self._level = (request.meta or {}).get(types.LOG_LEVEL_META_KEY) if self._is_stateless else level
        self._known = answers
        self._count = 0

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        await self._request.session.report_progress(progress, total, message)

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        if self._level in LEVELS and LEVELS.index(level) >= LEVELS.index(self._level):
            params = types.LoggingMessageNotificationParams(level=level, data=data, logger=logger)
            notification = types.LoggingMessageNotification(params=params)
            await self._request.session.send_notification(notification, related_request_id=self._request.request_id)

    async def put(self, questions: Mapping[str, Question]) -> Mapping[str, Any]:
        requests = {key: to_request(question, self.protocol_version) for key, question in questions.items()}
        required = [request.required for request in requests.values()]
        if missing := [capability for capability in required if is_capability_missing(self.capabilities, capability)]:
            raise MissingCapability(merge_capabilities(missing))
        if not self._is_stateless:
            answers = await self._send_all(requests)
            return {key: request.read(answers[key]) for key, request in requests.items()}
        names = {key: key or self._make_name() for key in requests}
        self.asked = {names[key]: request for key, request in requests.items() if names[key] not in self._known}
        if self.asked:
            raise ToolUnavailable("the client has to answer first")
        return {key: request.read(self._known[names[key]]) for key, request in requests.items()}

    def _make_name(self) -> str:
        self._count += 1
        return f"q{self._count}"

    async def _send_all(self, requests: Mapping[str, QuestionRequest]) -> dict[str, Any]:
        """Send all questions concurrently. An error cancels the others."""
        answers: dict[str, Any] = {}
        errors: list[Exception] = []
        async with anyio.create_task_group() as tasks:

            async def ask(key: str, request: QuestionRequest) -> None:
                try:
                    answers[key] = await self._send(request)
                except Exception as error:
                    errors.append(error)
                    tasks.cancel_scope.cancel()

            for key, request in requests.items():
                tasks.start_soon(ask, key, request)
        if errors:
            raise errors[0]
        return answers

    async def _send(self, question: QuestionRequest) -> Any:
        request = _REQUESTS[question.method].model_validate(question.to_mcp([]))
        related = ServerMessageMetadata(related_request_id=self._request.request_id)
        try:
            return (await self._request.session.send_request(request, RawResult, metadata=related)).model_dump()
        except MCPError as error:
            if error.code == -1:
                raise ApprovalDeclined(f"The user declined the request: {error.message}") from error
            raise ToolUnavailable(f"The client could not answer: {error.message}") from error
