"""The policy `audit`: stores a hash-chained record of every call before the client gets the result."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PrivateAttr

from mcp_bridge._contracts.errors import (
    ApprovalDeclined,
    AuditUnavailable,
    ConfigError,
    Denied,
    MissingScope,
    RateLimited,
)
from mcp_bridge._contracts.policy import CallNext, Forecast, Layer, Stage
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolCall, ToolResult
from mcp_bridge._policies.approvals.decisions import hash_json
from mcp_bridge._policies.audit_trail.database import AuditFileError, Synchronous, check_location
from mcp_bridge._policies.audit_trail.retention import Retention, format_time
from mcp_bridge._policies.audit_trail.writer import AuditWriter
from mcp_bridge._policies.base import CallPolicy, PolicyServices
from mcp_bridge._protocol.wire.argument_shapes import describe_shape, list_keys
from mcp_bridge._protocol.wire.outcomes import to_error_result
from mcp_bridge._protocol.wire.redacted_values import redact_arguments
from mcp_bridge._settings.values import Duration, Size

DENIALS = frozenset(error.code for error in (Denied, ApprovalDeclined, MissingScope, RateLimited))
"""The codes of errors of calls that a policy has stopped."""
MAX_NAME = 1000
"""The maximum number of characters of a name, which may be a URI."""
MAX_ID = 200
"""The maximum number of characters of the id of a call. Clients choose ids."""
MAX_ARGUMENTS = 64 * 1024
"""The maximum number of characters of arguments that are recorded in full. Of longer ones, the shape is recorded."""
_ADVICE = "Only the operator of this server can fix this, so do not retry."


class CallRecorder:
    """Records calls for a policy."""

    def __init__(self, policy: AuditPolicy, writer: AuditWriter, services: PolicyServices) -> None:
        self.writer = writer
        self._policy = policy
        self._redactor = services.redactor
        self._server = {"server": services.name, "pid": os.getpid()}
        self._is_selective = bool(policy.principals) or not policy.selects_everything
        self._fails_closed = policy.on_failure == "deny"
        # The key and the description of the latest caller. Other threads replace both in one assignment.
        self._latest_caller: tuple[Any, dict[str, Any]] = (None, {})

    async def record_call(self, source: str, call: ToolCall, ctx: RunningCall, call_next: CallNext) -> ToolResult:
        """Run a call to a source, and return its result once it is recorded; an error if it cannot be recorded."""
        if self._is_selective and not self._policy.applies_to_call(call, ctx):
            return await call_next(call, ctx)
        record = self._describe_call(source, call, ctx)
        began = time.monotonic()
        try:
            if not await self._can_start(record):
                return _make_failure(call, "did not run")
            result = await call_next(call, ctx)
        except BaseException:
            # Only a cancellation of the call gets here. No response waits for the record.
            self.writer.append_soon(self._complete_record(record, ctx, began, {"outcome": "cancelled"}))
            raise
        try:
            await self.writer.append_record(self._complete_record(record, ctx, began, _describe_outcome(result)))
        except AuditFileError:
            if self._fails_closed:
                effect = "did not run" if result.code in DENIALS else "may have run"
                return _make_failure(call, f"{effect}, and its result is not returned")
        return result

    async def _can_start(self, record: Mapping[str, Any]) -> bool:
        """Record the start if `starts` is set, and return whether the call may run."""
        try:
            if self._policy.starts:
                await self.writer.append_record({**record, "outcome": "started"})
            elif self._fails_closed and self.writer.has_failed:
                await self.writer.check_file()
        except AuditFileError:
            return not self._fails_closed
        return True

    def _describe_call(self, source: str, call: ToolCall, ctx: RunningCall) -> dict[str, Any]:
        """Describe the call before it runs, because a tool can change its arguments. Empty members are left out."""
        caller = self._describe_caller(ctx)
        name = call.name[:MAX_NAME]
        call_id = call.id[:MAX_ID]
        record: dict[str, Any] = {"time": format_time(time.time()), "kind": call.kind, "name": name}
        if source:
            record["source"] = source
        record |= caller
        if call_id:
            record["call"] = call_id
        if ctx.parent_id:
            record["parent"] = ctx.parent_id[:MAX_ID]
        record |= self._server
        self._add_arguments(record, call.arguments)
        if self._redactor.is_empty:
            return record
        # Clients choose these texts. Most contain nothing to redact, and one search in all of them shows that.
        text = "\n".join((name, caller.get("client", ""), call_id, *list_keys(record.get("shape"))))
        if self._redactor.redact_text(text) == text:
            return record
        redacted_record: dict[str, Any] = self._redactor.redact_value(record)
        return redacted_record

    def _describe_caller(self, ctx: RunningCall) -> dict[str, Any]:
        """Describe the caller. The description is reused for the next call of the same caller."""
        info = ctx.client_info
        key = (info, ctx.principal, ctx.protocol_version)
        latest_key, description = self._latest_caller
        if key != latest_key:
            members = {
                "principal": ctx.principal,
                "client": f"{info.name} {info.version}".strip(),
                "protocol": ctx.protocol_version,
                "transport": info.transport,
            }
            description = {name: value for name, value in members.items() if value}
            self._latest_caller = key, description
        return description

    def _add_arguments(self, record: dict[str, Any], arguments: Any) -> None:
        try:
            digest = hash_json(arguments)
            redacted_arguments = None
            if self._policy.arguments == "full":
                redacted_arguments = redact_arguments(arguments, self._redactor)
            if redacted_arguments is not None and len(str(redacted_arguments)) <= MAX_ARGUMENTS:
                record["arguments"] = redacted_arguments
            else:
                record["shape"] = describe_shape(arguments)
            record["sha256"] = digest
        except (TypeError, ValueError, RecursionError):
            # A caller in process can pass arguments that are not JSON.
            record["shape"] = type(arguments).__name__

    def _complete_record(
        self, record: dict[str, Any], ctx: RunningCall, began: float, outcome: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Add the outcome, the duration and the decisions to the record of a call."""
        record |= outcome
        record["duration_ms"] = round((time.monotonic() - began) * 1000, 3)
        if ctx.decisions:
            record["decisions"] = self._redactor.redact_value([decision.to_json() for decision in ctx.decisions])
        return record


class AuditPolicy(CallPolicy):
    """Record the calls that match in an [audit trail](audit.md), and allow only what can be recorded.

    It is the outermost policy, so it sees the result that the client gets, and the decisions of other policies.
    """

    checks_calls = True
    name = "audit"
    stage = Stage.OBSERVE
    is_passive = True
    may_ask = False

    path: str = Field(min_length=1, description="The file of the audit trail, in an existing or new folder.")
    arguments: Literal["shapes", "full"] = Field(
        default="shapes",
        description="`shapes`: record the types and sizes of arguments, and their SHA-256. `full`: record the "
        "arguments, with secrets redacted.",
    )
    starts: bool = Field(
        default=False,
        description="Also record each call before it runs, so that a call leaves a trace if the server crashes.",
    )
    on_failure: Literal["deny", "continue"] = Field(
        default="deny",
        description="What happens if the file cannot be written. `deny`: calls fail. `continue`: calls run, and the "
        "number of lost records is recorded later.",
    )
    synchronous: Synchronous = Field(
        default="normal",
        description="`normal`: a record survives the end of the process. `full`: it also survives a power failure, "
        "because each write waits for the disk.",
    )
    keep: Duration | None = Field(
        default=None, description="How long records are kept, such as `90d`. Default: forever."
    )
    max_size: Size | None = Field(
        default=None,
        description="The maximum size of the file, beyond which the oldest records are removed. Default: none.",
    )

    _recorder: CallRecorder = PrivateAttr()

    def use_services(self, services: PolicyServices) -> None:
        """Prepare the writer. Raises ConfigError if the file cannot be an audit trail."""
        path = services.directory / Path(self.path).expanduser()
        try:
            check_location(path)
        except AuditFileError as error:
            raise ConfigError(str(error), hint="Fix or move the file, or set another `path`") from error
        writer = AuditWriter(path, synchronous=self.synchronous, retention=Retention(self.keep, self.max_size))
        self._recorder = CallRecorder(self, writer, services)

    def bind(self, entry: Any) -> Layer | None:
        """Return no layer for entries whose calls never match."""
        if not self.applies_to_entry(entry):
            return None
        return partial(self._recorder.record_call, getattr(entry, "owner", ""))

    async def run(self) -> None:
        """Keep the file open until cancelled."""
        await self._recorder.writer.run()

    async def predict(self, entry: Any, call: ToolCall, ctx: RunningCall) -> Forecast:
        """Predict that the call is recorded, or that it is denied because the file cannot be written."""
        if not self.applies_to_call(call, ctx):
            return Forecast("passes", "not recorded")
        if self.on_failure == "deny":
            try:
                check_location(self._recorder.writer.path)
            except AuditFileError as error:
                return Forecast("stops", str(error))
        return Forecast("passes", "recorded")


def _describe_outcome(result: ToolResult) -> dict[str, Any]:
    if result.success:
        return {"outcome": "ok"}
    code = result.code or "tool_error"
    return {"outcome": "denied" if code in DENIALS else "error", "code": code}


def _make_failure(call: ToolCall, outcome: str) -> ToolResult:
    text = f"{call.kind.capitalize()} '{call.name}' {outcome}, because the audit trail cannot be written. {_ADVICE}"
    return to_error_result(AuditUnavailable(text))
