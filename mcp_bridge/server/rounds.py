"""Rounds: what travels through the client between two requests of one call, sealed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mcp_bridge.contracts.question import NeedsInput, Question
from mcp_bridge.server.parking import Answered, Parked
from mcp_bridge.server.questions import Wired, pose
from mcp_bridge.wire.values import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Where a call stands.

    `handle` is where it waits, on the instance that it waits on. What another instance needs to take it up is there
    only while no handler has `started`, neither its own nor one that it called, or its own has ended with a
    `NeedsInput`: the answers so far by key and digest of their question, the same of the questions that were asked
    now, by name, and what the handler needs. `since` is when they were asked, in seconds since 1970; `new` are answers
    that no instance has acted upon yet.
    """

    handle: str = ""
    started: bool = False
    answered: Sequence[Answered] = ()
    asked: Mapping[str, Sequence[str]] = field(default_factory=dict)
    needs: NeedsInput | None = None
    since: float | None = None
    new: Sequence[Answered] = ()

    @property
    def seconds(self) -> float | None:
        """How long ago its questions were asked; None where the clocks of two machines do not agree at all."""
        passed = time.time() - self.since if self.since is not None else -1.0
        return passed if passed >= 0 else None

    @classmethod
    def of(cls, parked: Parked, handle: str) -> Round:
        """Where a parked call stands."""
        context = parked.context
        if context.begun:
            return cls(handle=handle, started=True)
        asked = {name: (pending.key, pending.posed.digest) for name, pending in parked.pending.items()}
        needs = context.needs
        if needs is not None:
            questions = needs.questions.items()
            wired = {key: _wired(question, context.protocol_version) for key, question in questions}
            needs = NeedsInput(wired, plain(needs.state))
        answered = (*parked.answered, *parked.given)
        return cls(handle=handle, answered=answered, asked=asked, needs=needs, since=time.time())

    @classmethod
    def from_state(cls, state: str) -> Round:
        """What `to_state` made; the seal has been checked."""
        held = json.loads(state)
        needs = held.get("needs")
        return cls(
            handle=held["handle"],
            started=held["started"],
            answered=[(key, digest, raw) for key, digest, raw in held["answered"]],
            asked=held["asked"],
            needs=_needs(needs) if needs is not None else None,
            since=held.get("since"),
        )

    def to_state(self) -> str:
        """As text, to be sealed."""
        held: dict[str, Any] = {
            "handle": self.handle,
            "started": self.started,
            "answered": list(self.answered),
            "asked": dict(self.asked),
            "since": self.since,
        }
        if self.needs is not None:
            questions = self.needs.questions.items()
            wired = {key: [one.method, one.params, one.form] for key, one in questions if isinstance(one, Wired)}
            held["needs"] = {"questions": wired, "state": self.needs.state}
        return json.dumps(held, separators=(",", ":"))

    def with_answers(self, responses: Mapping[str, Any]) -> Round:
        """This round with what the client has answered; what was not asked for is left out."""
        new = [(key, digest, responses[name]) for name, (key, digest) in self.asked.items() if name in responses]
        return replace(self, new=new)


def _wired(question: Question, version: str) -> Wired:
    """The question as it is sealed, with all that its answer is checked against, of which clients know a part."""
    posed = pose(question, version)
    whole = Wired(posed.method, posed.params, posed.form)
    same = pose(whole, version).digest == posed.digest
    return whole if same else Wired(posed.method, posed.params)


def _needs(held: Mapping[str, Any]) -> NeedsInput:
    questions = {key: Wired(method, params, form) for key, (method, params, form) in held["questions"].items()}
    return NeedsInput(questions, held["state"])
