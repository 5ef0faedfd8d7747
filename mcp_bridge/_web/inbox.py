"""The inbox: questions of running calls for users on the page or in terminals, and the latest decisions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from mcp_bridge._policies.approvals.desk import OpenQuestion, QuestionDesk, RecordedDecision
from mcp_bridge._protocol.wire.redacted_values import redact_values
from mcp_bridge._runtime.redaction import Redactor
from mcp_bridge._web.feed import GRACE, EventFeed
from mcp_bridge._web.viewer import Viewer


class Inbox:
    """The questions at a desk, for the viewers who are connected to a feed."""

    def __init__(self, desk: QuestionDesk, feed: EventFeed, redactor: Redactor) -> None:
        self._desk = desk
        self._feed = feed
        self._redactor = redactor
        desk.on_question = self._report_question
        desk.on_decision = self._report_decision

    @contextmanager
    def connect_viewer(self, viewer: Viewer) -> Iterator[None]:
        """Let the viewer answer questions during the block, and a page for `GRACE` seconds after it.

        A page whose connection breaks connects again within this time, and a question must not end meanwhile.
        """
        self._desk.add_approver(viewer)
        try:
            yield
        finally:
            if viewer.channel == "page":
                asyncio.get_running_loop().call_later(GRACE, self._desk.remove_approver, viewer)
            else:
                self._desk.remove_approver(viewer)

    def list_questions(self, viewer: Viewer) -> list[dict[str, Any]]:
        """List the open questions, the oldest first."""
        visible = [question for question in self._desk.questions if viewer.can_see(question.principal)]
        return [self._render_question(question) for question in visible]

    def list_decisions(self, viewer: Viewer) -> list[dict[str, Any]]:
        """List the latest decisions, the latest first."""
        visible = [row for row in reversed(self._desk.decisions) if viewer.can_see(row.subject.principal or None)]
        return [self._render_decision(row) for row in visible]

    def answer_question(self, viewer: Viewer, number: int, body: Mapping[str, Any]) -> None:
        """Answer a question.

        Raises LookupError if the viewer does not see the question or it is not open, and ValueError for an invalid
        answer.
        """
        question = self._desk.find_question(number)
        if question is None or not viewer.can_see(question.principal):
            raise LookupError("This question is no longer waiting for an answer.")
        value = body.get("choice") if question.params is None else dict(body)
        self._desk.answer_question(question, value, viewer)

    def _report_question(self, question: OpenQuestion, *, is_settled: bool) -> None:
        send = partial(self._feed.send, principal=question.principal, is_public=False)
        if not is_settled:
            send("question", self._render_question(question))
        elif question.answer is None:
            send("answered", {"id": question.number, "how": question.outcome, "outcome": None})
        else:
            outcome = question.answer.value
            if isinstance(outcome, Mapping):
                outcome = outcome.get("action")
            send("answered", {"id": question.number, "how": question.answer.channel, "outcome": outcome})

    def _report_decision(self, decision: RecordedDecision) -> None:
        principal = decision.subject.principal or None
        self._feed.send("decision", self._render_decision(decision), principal=principal, is_public=False)

    def _render_question(self, question: OpenQuestion) -> dict[str, Any]:
        params = question.params
        arguments: Any = question.arguments
        # Arguments that were truncated are not valid JSON any more. They stay a text.
        with suppress(ValueError, RecursionError):
            arguments = redact_values(json.loads(question.arguments), self._redactor)
        row: dict[str, Any] = {
            "id": question.number,
            "kind": "approval",
            "tool": question.tool,
            "principal": question.principal,
            "message": question.message,
            "arguments": arguments,
            "since": question.since,
        }
        if params is None:
            return row | {"choices": [*question.scopes, "deny"]}
        row["kind"] = "link" if "url" in params else "form"
        return row | {"schema": params.get("requestedSchema"), "url": params.get("url")}

    def _render_decision(self, row: RecordedDecision) -> dict[str, Any]:
        subject, decision = row.subject, row.decision
        return {
            "time": row.time,
            "tool": self._redactor.redact_text(subject.tool),
            "principal": subject.principal or None,
            "decision": "allow" if decision.is_allowed else "deny",
            "scope": decision.scope if decision.is_allowed else None,
            "how": decision.how,
            "user": decision.user or None,
            "message": decision.reason,
        }
