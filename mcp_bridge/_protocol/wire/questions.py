"""Reads the requests of a server to its client as questions, and renders the answers as results of these requests.

The bridge is the client here: it forwards the questions of upstreams to its own client. The requests are those
of elicitation, sampling and roots in the handshake versions, and the input requests of 2026-07-28 with the same
parameters and results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_bridge._contracts.content import Content
from mcp_bridge._contracts.handlers import NeedsInput
from mcp_bridge._contracts.question import Answer, Form, Link, Question, Root, Roots, Sampled, Sampling
from mcp_bridge._protocol.wire.content import render_block
from mcp_bridge._protocol.wire.protocol_versions import HANDSHAKE

_SAMPLING_OPTIONS = {
    "systemPrompt": "system_prompt", "temperature": "temperature", "stopSequences": "stop_sequences",
    "modelPreferences": "model_preferences", "includeContext": "include_context", "metadata": "metadata",
    "tools": "tools", "toolChoice": "tool_choice",
}  # fmt: skip


def read_question(method: str, params: Mapping[str, Any]) -> Question:
    """Return a request of a server as a question. Raises ValueError for an unknown method or invalid parameters."""
    try:
        if method == "elicitation/create":
            if not isinstance(params["message"], str):
                raise ValueError(f"{method}: message must be a text")
            if params.get("mode") == "url":
                return Link(params["message"], str(params["url"]))
            if not isinstance(params["requestedSchema"], Mapping):
                raise ValueError(f"{method}: requestedSchema must be an object")
            return Form(params["message"], params["requestedSchema"])
        if method == "sampling/createMessage":
            options = {name: params[key] for key, name in _SAMPLING_OPTIONS.items() if params.get(key) is not None}
            return Sampling(params["messages"], params["maxTokens"], **options)
    except KeyError as error:
        raise ValueError(f"{method} has no parameter {error}") from None
    if method == "roots/list":
        return Roots()
    raise ValueError(f"Method not found: {method}")


def read_needs(requests: Mapping[str, Mapping[str, Any]], state: Any) -> NeedsInput:
    """Return the input requests of a result as a NeedsInput. Raises ValueError if one of them is invalid."""
    questions = {}
    for key, request in requests.items():
        questions[key] = read_question(request["method"], request.get("params") or {})
    return NeedsInput(questions, state)


def render_answer(answer: Answer[Any] | Sampled | Sequence[Root]) -> dict[str, Any]:
    """Return an answer as the client's result of the request."""
    result: dict[str, Any]
    if isinstance(answer, Answer):
        result = {"action": answer.action}
        # The answer to a link has no content.
        if answer.accepted and (answer.content or answer.data is not None):
            result["content"] = dict(answer.content)
        return result
    if isinstance(answer, Sampled):
        blocks = []
        for item in answer.content:
            blocks.append(render_block(item, HANDSHAKE) if isinstance(item, Content) else dict(item))
        content = blocks[0] if len(blocks) == 1 else blocks
        result = {"role": answer.role, "content": content, "model": answer.model}
        if answer.stop_reason:
            result["stopReason"] = answer.stop_reason
        return result
    roots = []
    for root in answer:
        roots.append({"uri": root.uri, "name": root.name} if root.name else {"uri": root.uri})
    return {"roots": roots}


def render_continuation(answers: Mapping[str, Any], state: Any) -> dict[str, Any]:
    """Return the answers to a NeedsInput, and its state, as the parameters of the next request of the call."""
    params: dict[str, Any] = {}
    if answers:
        params["inputResponses"] = {key: render_answer(answer) for key, answer in answers.items()}
    if state is not None:
        params["requestState"] = state
    return params
