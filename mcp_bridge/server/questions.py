"""Questions as MCP has them: what is sent for one, what the client must be able to do, and how an answer is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import mcp_types as types
from pydantic import AnyHttpUrl

from mcp_bridge.contracts.question import Answer, Form, Link, Question, Root, Roots, Sampled, Sampling
from mcp_bridge.schema.forms import FormSchema, form_of
from mcp_bridge.wire.blocks import from_block
from mcp_bridge.wire.messages import messages
from mcp_bridge.wire.values import plain, plain_mapping
from mcp_bridge.wire.versions import ICONS, STATELESS, carries

ELICIT, SAMPLE, LIST_ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
TRIES = 3
"""How often one question may be answered with what does not fit."""
_ACTIONS = ("accept", "decline", "cancel")
_ID = "elicitationId"


class Unfit(ValueError):
    """An answer that does not fit its question; `problems` has a line for each thing that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Wired(Question):
    """A question that has been sealed and opened again; `form` is all that its answer is checked against."""

    method: str
    params: Mapping[str, Any]
    form: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Posed:
    """A question ready to be asked. `required` are the capabilities it needs; `read` raises Unfit.

    `form` is all that the answer is checked against, of which clients are told what they can read.
    """

    method: str
    params: dict[str, Any]
    required: dict[str, Any]
    read: Callable[[Any], Any]
    form: dict[str, Any] | None = None

    @property
    def digest(self) -> str:
        """The same for the same question, whoever asks it and when."""
        params = {key: value for key, value in self.params.items() if key != _ID}
        text = json.dumps([self.method, params], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def to_mcp(self, problems: list[str]) -> dict[str, Any]:
        """As a request; `problems` tell the person why it is asked again."""
        if not problems or "message" not in self.params:
            return {"method": self.method, "params": self.params}
        message = f"{self.params['message']}\n\nThe last answer did not fit: {'; '.join(problems)}"
        return {"method": self.method, "params": {**self.params, "message": message}}


def pose(question: Question, version: str) -> Posed:
    """A question for a client of this protocol version. Raises ValueError for one that cannot be asked."""
    match question:
        case Form(message, schema):
            return _form(message, form_of(schema), version)
        case Link(message, url):
            return _link(message, url, version)
        case Sampling():
            params = _sampling_params(question, version)
            types.CreateMessageRequestParams.model_validate(params)  # the author's mistakes are the author's to hear
            return _sampling(params)
        case Roots():
            return Posed(LIST_ROOTS, {}, {"roots": {}}, _roots)
        case Wired(method, params, form):
            return _again(method, dict(params), form, version)
    raise TypeError(f"expected a Form, a Link, Sampling or Roots, found {type(question).__name__}")


def wired(posed: Posed) -> Posed:
    """The question as it would come back from the wire: its answers are plain data, on every instance alike."""

    def read(raw: Any) -> Any:
        answer = posed.read(raw)
        return replace(answer, data=answer.content) if isinstance(answer, Answer) else answer

    return replace(posed, read=read)


def lacking(capabilities: Mapping[str, Any], required: Mapping[str, Any]) -> bool:
    """Whether the client has not declared what a question requires."""
    for name, parts in required.items():
        declared = capabilities.get(name)
        if name == "elicitation" and declared == {}:
            declared = {"form": {}}  # neither of both means forms, as before 2025-11-25
        if declared is None or any(declared.get(part) is None for part in parts):
            return True
    return False


def merged(requirements: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """All that several questions require."""
    made: dict[str, Any] = {}
    for required in requirements:
        for name, parts in required.items():
            made[name] = {**made.get(name, {}), **parts}
    return made


def _again(method: str, params: dict[str, Any], form: Any, version: str) -> Posed:
    if method == SAMPLE:
        return _sampling(params)
    if method == LIST_ROOTS:
        return pose(Roots(), version)
    if "url" in params:
        return _link(params["message"], params["url"], version)
    return _form(params["message"], form_of(form or params["requestedSchema"]), version)


def _form(message: str, form: FormSchema, version: str) -> Posed:
    mode = {"mode": "form"} if carries(version, ICONS) else {}
    params = {**mode, "message": str(plain(message)), "requestedSchema": form.for_version(version)}
    return Posed(ELICIT, params, {"elicitation": {"form": {}}}, partial(_answer, form), form.whole)


def _link(message: str, url: str, version: str) -> Posed:
    try:
        AnyHttpUrl(url)
        sound = bool(urlsplit(url).hostname)  # pydantic reads http:///path as the host path
    except ValueError:
        sound = False
    if not sound:
        raise ValueError(f"a page that a person opens is at an https: or http: address, found {url!r}")
    params = {"mode": "url", "message": str(plain(message)), "url": url}
    if not carries(version, STATELESS):
        params[_ID] = uuid4().hex
    return Posed(ELICIT, params, {"elicitation": {"url": {}}}, partial(_answer, None))


def _sampling(params: dict[str, Any]) -> Posed:
    parts: dict[str, Any] = {"tools": {}} if "tools" in params or "toolChoice" in params else {}
    if params.get("includeContext", "none") != "none":
        parts["context"] = {}
    return Posed(SAMPLE, params, {"sampling": parts}, _sampled)


def _sampling_params(asked: Sampling, version: str) -> dict[str, Any]:
    if not isinstance(asked.max_tokens, int) or asked.max_tokens < 1:
        raise ValueError(f"max_tokens is a whole number of at least 1, found {asked.max_tokens!r}")
    given: Any = asked.messages
    several = isinstance(given, Sequence) and not isinstance(given, str)
    conversation = messages(given if several else [given], version)
    options = {
        "systemPrompt": asked.system_prompt,
        "temperature": asked.temperature,
        "stopSequences": list(asked.stop_sequences) if asked.stop_sequences is not None else None,
        "modelPreferences": asked.model_preferences,
        "includeContext": asked.include_context,
        "metadata": asked.metadata,
        "tools": asked.tools,
        "toolChoice": asked.tool_choice,
    }
    chosen = {name: plain(value) for name, value in options.items() if value is not None}
    return {"messages": conversation, "maxTokens": asked.max_tokens, **chosen}


def _answer(form: FormSchema | None, raw: Any) -> Answer:
    given = _object(raw)
    action = given.get("action")
    if action not in _ACTIONS:
        raise Unfit([f"$.action: one of {', '.join(_ACTIONS)}"])
    if action != "accept" or form is None:
        return Answer(action=action)
    content = given.get("content")
    content = {} if content is None else content
    if problems := form.check(content):
        raise Unfit(problems)
    return Answer(action=action, content=form.given(content), data=form.read(content))


def _sampled(raw: Any) -> Sampled:
    given = _object(raw)
    content = given.get("content")
    blocks: list[Any] = content if isinstance(content, list) else [content]
    if not all(isinstance(block, Mapping) for block in blocks) or not isinstance(given.get("model"), str):
        raise Unfit(["$: a message with role, content and model"])
    return Sampled(
        role=str(given.get("role", "assistant")),
        content=tuple(from_block(block) for block in blocks),
        model=given["model"],
        stop_reason=given.get("stopReason"),
    )


def _roots(raw: Any) -> tuple[Root, ...]:
    found = _object(raw).get("roots")
    if not isinstance(found, list) or not all(isinstance(item, Mapping) and "uri" in item for item in found):
        raise Unfit(["$.roots: a list of objects with a uri"])
    return tuple(Root(uri=str(item["uri"]), name=item.get("name")) for item in found)


def _object(raw: Any) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise Unfit([f"$: an object, found {type(raw).__name__}"])
    return plain_mapping(raw)
