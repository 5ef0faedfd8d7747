"""Turns questions of authors (Form, Link, Sampling, Roots) into requests of MCP, and reads the answers of clients."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

from mcp_bridge._contracts.question import Answer, Form, Link, Question, Root, Roots, Sampled, Sampling
from mcp_bridge._json_schema.forms import FormSchema, create_form
from mcp_bridge._protocol.wire.content_reader import from_block
from mcp_bridge._protocol.wire.messages import render_messages
from mcp_bridge._protocol.wire.protocol_versions import ICONS, STATELESS, has_feature
from mcp_bridge._protocol.wire.values import to_plain, to_plain_mapping
from mcp_bridge._server.params import list_result_problems
from mcp_bridge._server.questions.sampling_params import check_sampling_params

ELICIT, SAMPLE, LIST_ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
TRIES = 3
"""The number of invalid answers to a question after which the question fails."""
CONFIRM = "confirm"
CONFIRMATION = {
    "type": "object",
    "properties": {CONFIRM: {"type": "boolean", "title": "Confirm", "default": True}},
    "required": [CONFIRM],
}
"""The form of a question without a schema. In some clients, an empty form cannot be accepted."""
_ACTIONS = ("accept", "decline", "cancel")
_ID = "elicitationId"
# The characters that cannot be part of a URL. Browsers read a backslash as a slash, and other programs do not, so that
# they could see different hosts.
_BLANK = r"\s\x00-\x20\x7f\ud800-\udfff\\"
_WEB_URL = re.compile(
    rf"https?://([^{_BLANK}/?#@]*@)?"
    rf"(\[[0-9a-f:.]+\]|[^{_BLANK}/?#@:<>\[\]^|%]+)(:(?P<port>[0-9]{{0,5}}))?"
    rf"([/?#][^{_BLANK}]*)?",
    re.IGNORECASE,
)


class AnswerMismatch(ValueError):
    """The answer does not match its question. `problems` has a line for each mismatch."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class SealedQuestion(Question):
    """A question in a sealed state: its request, and the full schema of its answer (`form`)."""

    method: str
    params: Mapping[str, Any]
    form: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class QuestionRequest:
    """A question as a request to a client.

    Attributes:
        required: The client capabilities it needs.
        read: Turns the result of the client into the answer. Raises AnswerMismatch.
        form: The full schema of the answer. Clients get the part of it that MCP allows.
    """

    method: str
    params: dict[str, Any]
    required: dict[str, Any]
    read: Callable[[Any], Any]
    form: dict[str, Any] | None = None

    @property
    def digest(self) -> str:
        """A hash of the question, by which another instance recognizes it. It is the same in every call."""
        params = {key: value for key, value in self.params.items() if key != _ID}
        text = json.dumps([self.method, params], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def to_mcp(self, problems: list[str]) -> dict[str, Any]:
        """Return the request. `problems` explain to the user why the last answer was not valid."""
        if not problems or "message" not in self.params:
            return {"method": self.method, "params": self.params}
        message = f"{self.params['message']}\n\nThe last answer was not valid: {'; '.join(problems)}"
        return {"method": self.method, "params": {**self.params, "message": message}}


def to_request(question: Question, version: str) -> QuestionRequest:
    """Return the request for a client of this protocol version. Raises ValueError for an invalid question."""
    request = _to_request(question, version)

    def read_checked(raw: Any) -> Any:
        answer = request.read(raw)
        if problems := list_result_problems(request.method, version, raw):
            raise AnswerMismatch(problems)
        return answer

    return replace(request, read=read_checked)


def _to_request(question: Question, version: str) -> QuestionRequest:
    match question:
        case Form(message, None):
            return _to_confirmation_request(message, version)
        case Form(message, schema):
            return _to_form_request(message, create_form(schema), version)
        case Link(message, url):
            return _to_link_request(message, url, version)
        case Sampling():
            params = _to_sampling_params(question, version)
            check_sampling_params(params)
            return _to_sampling_request(params)
        case Roots():
            return QuestionRequest(LIST_ROOTS, {}, {"roots": {}}, _read_roots)
        case SealedQuestion(method, params, form):
            return _restore_request(method, dict(params), form, version)
    raise TypeError(f"expected a Form, a Link, Sampling or Roots, found {type(question).__name__}")


def with_plain_answers(request: QuestionRequest) -> QuestionRequest:
    """Return a request whose answers are plain data.

    A sealed question has no Python type. So an instance that restores it returns plain data, and this one must do the
    same.
    """

    def read_plain(raw: Any) -> Any:
        answer = request.read(raw)
        if isinstance(answer, Answer) and answer.data is not None:
            return replace(answer, data=answer.content)
        return answer

    return replace(request, read=read_plain)


def is_capability_missing(capabilities: Mapping[str, Any], required: Mapping[str, Any]) -> bool:
    """Return whether a client lacks a required capability."""
    for name, parts in required.items():
        capability = capabilities.get(name)
        if name == "elicitation" and capability is not None and capability.keys().isdisjoint(("form", "url")):
            # An object with neither key means forms: versions before 2025-11-25 know nothing else.
            capability = {"form": {}}
        if capability is None or any(capability.get(feature) is None for feature in parts):
            return True
    return False


def merge_capabilities(requirements: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the required capabilities of several questions."""
    capabilities: dict[str, Any] = {}
    for requirement in requirements:
        for name, parts in requirement.items():
            capabilities[name] = {**capabilities.get(name, {}), **parts}
    return capabilities


def _restore_request(method: str, params: dict[str, Any], form: Any, version: str) -> QuestionRequest:
    if method == SAMPLE:
        return _to_sampling_request(params)
    if method == LIST_ROOTS:
        return _to_request(Roots(), version)
    if "url" in params:
        return _to_link_request(params["message"], params["url"], version)
    if form == CONFIRMATION:
        return _to_confirmation_request(params["message"], version)
    return _to_form_request(params["message"], create_form(form or params["requestedSchema"]), version)


def _to_form_request(message: str, form: FormSchema, version: str) -> QuestionRequest:
    params: dict[str, Any] = {}
    # Modes and icons were both added in 2025-11-25.
    if has_feature(version, ICONS):
        params["mode"] = "form"
    params |= {"message": str(to_plain(message)), "requestedSchema": form.to_version(version)}
    return QuestionRequest(ELICIT, params, {"elicitation": {"form": {}}}, partial(_read_answer, form), form.full_schema)


def _to_confirmation_request(message: str, version: str) -> QuestionRequest:
    form = create_form(CONFIRMATION)
    return replace(_to_form_request(message, form, version), read=partial(_read_confirmation, form))


def _to_link_request(message: str, url: str, version: str) -> QuestionRequest:
    match = _WEB_URL.fullmatch(url) if isinstance(url, str) else None
    if match is None or int(match["port"] or 0) > 65535:
        raise ValueError(f"the url of a Link must begin with https:// or http:// and name a host, found {url!r}")
    params = {"mode": "url", "message": str(to_plain(message)), "url": url}
    if not has_feature(version, STATELESS):
        params[_ID] = uuid4().hex
    return QuestionRequest(ELICIT, params, {"elicitation": {"url": {}}}, partial(_read_answer, None))


def _to_sampling_request(params: dict[str, Any]) -> QuestionRequest:
    parts: dict[str, Any] = {}
    if "tools" in params or "toolChoice" in params:
        parts["tools"] = {}
    if params.get("includeContext", "none") != "none":
        parts["context"] = {}
    return QuestionRequest(SAMPLE, params, {"sampling": parts}, _read_sampled)


def _to_sampling_params(question: Sampling, version: str) -> dict[str, Any]:
    if not isinstance(question.max_tokens, int) or question.max_tokens < 1:
        raise ValueError(f"max_tokens must be an integer of at least 1, found {question.max_tokens!r}")
    messages: Any = question.messages
    if isinstance(messages, str) or not isinstance(messages, Sequence):
        messages = [messages]
    conversation = render_messages(messages, version)
    options = {
        "systemPrompt": question.system_prompt,
        "temperature": question.temperature,
        "stopSequences": list(question.stop_sequences) if question.stop_sequences is not None else None,
        "modelPreferences": question.model_preferences,
        "includeContext": question.include_context,
        "metadata": question.metadata,
        "tools": question.tools,
        "toolChoice": question.tool_choice,
    }
    set_options = {name: to_plain(value) for name, value in options.items() if value is not None}
    return {"messages": conversation, "maxTokens": question.max_tokens, **set_options}


def _read_answer(form: FormSchema | None, raw: Any) -> Answer[Any]:
    answer = _read_object(raw)
    action = answer.get("action")
    if action not in _ACTIONS:
        raise AnswerMismatch([f"$.action: expected one of {', '.join(_ACTIONS)}"])
    if action != "accept" or form is None:
        return Answer(action=action)
    content = answer.get("content")
    if content is None:
        content = {}
    problems = form.list_problems(content)
    if problems:
        raise AnswerMismatch(problems)
    return Answer(action=action, content=form.select_content(content), data=form.read_answer(content))


def _read_confirmation(form: FormSchema, raw: Any) -> Answer[Any]:
    """Read a confirmation. A cleared checkbox is a decline. Clients that show only buttons accept without content."""
    content = raw.get("content") if isinstance(raw, Mapping) else None
    is_empty = content is None or (isinstance(content, Mapping) and CONFIRM not in content)
    answer = _read_answer(None if is_empty else form, raw)
    if not answer.accepted:
        return answer
    if not answer.content.get(CONFIRM, True):
        return Answer(action="decline")
    return Answer(action="accept", data={})


def _read_sampled(raw: Any) -> Sampled:
    message = _read_object(raw)
    content = message.get("content")
    blocks: list[Any] = content if isinstance(content, list) else [content]
    if not all(isinstance(block, Mapping) for block in blocks) or not isinstance(message.get("model"), str):
        raise AnswerMismatch(["$: expected a message with role, content and model"])
    return Sampled(
        role=str(message.get("role", "assistant")),
        content=tuple(from_block(block) for block in blocks),
        model=message["model"],
        stop_reason=message.get("stopReason"),
    )


def _read_roots(raw: Any) -> tuple[Root, ...]:
    roots = _read_object(raw).get("roots")
    if not isinstance(roots, list) or not all(isinstance(root, Mapping) and "uri" in root for root in roots):
        raise AnswerMismatch(["$.roots: expected a list of objects with a uri"])
    return tuple(Root(uri=str(root["uri"]), name=root.get("name")) for root in roots)


def _read_object(raw: Any) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise AnswerMismatch([f"$: expected an object, found {type(raw).__name__}"])
    return to_plain_mapping(raw)
