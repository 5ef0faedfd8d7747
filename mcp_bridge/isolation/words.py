"""What goes between the bridge and a worker, as JSON and back: results, errors, questions and their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from mcp_bridge.contracts import errors
from mcp_bridge.contracts.content import Content
from mcp_bridge.contracts.errors import CallError
from mcp_bridge.contracts.prompt import Message
from mcp_bridge.contracts.question import (
    Answer,
    Form,
    Link,
    NeedsInput,
    Question,
    Root,
    Roots,
    Sampled,
    Sampling,
)
from mcp_bridge.contracts.tool import ToolResult
from mcp_bridge.schema.forms import form_of
from mcp_bridge.wire.blocks import from_block
from mcp_bridge.wire.content import block
from mcp_bridge.wire.messages import messages
from mcp_bridge.wire.outcomes import TABLE
from mcp_bridge.wire.values import plain, plain_mapping

Json = dict[str, Any]
_LEAVES = {row.code: row.error for row in TABLE}
_PLAIN_ERRORS = {"ValueError": ValueError, "TypeError": TypeError}


class Unfit(ValueError):
    """An answer that the type that was asked for refuses; `problems` has a line for each thing that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class WorkerError(Exception):
    """What a tool raised: its text, and as a class of that name its type; the worker's traceback is among the notes."""


def from_result(result: ToolResult, *, of_prompt: bool = False) -> Json:
    """A result whose output is JSON-ready as JSON; that of a prompt has messages for content."""
    said: Any = result.content
    several = [said] if isinstance(said, str | bytes | Content) else said
    error = result.error if isinstance(result.error, str) or result.error is None else plain_mapping(result.error)
    return {
        "success": bool(result.success),
        "output": result.output,
        "error": error if error is None or isinstance(error, dict) else str(plain(error)),
        "content": None if several is None else [_from_content(item, of_prompt=of_prompt) for item in several],
        "code": plain(result.code),
        "meta": plain_mapping(result.meta) or None,
    }


def to_result(given: Json) -> ToolResult:
    """The result again. Raises KeyError, TypeError or ValueError for what is none."""
    content = _one_of(given["content"], list)
    return ToolResult(
        success=bool(given["success"]),
        output=given["output"],
        error=_one_of(given["error"], str, dict),
        content=None if content is None else tuple(_to_content(item) for item in content),
        code=_one_of(given["code"], str),
        meta=_one_of(given["meta"], dict),
    )


def _one_of(given: Any, *kinds: type) -> Any:
    if given is not None and not isinstance(given, kinds):
        raise TypeError(f"found {type(given).__name__}")
    return given


def _from_content(item: Any, *, of_prompt: bool) -> Any:
    if of_prompt and isinstance(item, Message):
        return {"role": item.role, **messages([item], "")[0]}
    return block(item, "")


def _to_content(item: Any) -> Any:
    if not isinstance(item, dict):
        raise TypeError(f"found {type(item).__name__}")
    if "role" in item:
        inner: Any = from_block(item["content"])
        return Message(inner, item["role"])
    return from_block(item)


def from_error(error: BaseException) -> Json:
    """An error as JSON: what was meant for the model whole, anything else by its type and text."""
    if isinstance(error, CallError):
        made = {
            "code": str(plain(error.code)),
            "message": str(plain(error.message)),
            "details": plain(list(error.details)),
        }
        if isinstance(error, errors.MissingCapability):
            made["required"] = plain_mapping(error.required)
        if isinstance(error, errors.InvalidOutput):
            made["output"] = plain(error.output)
        return made
    return {"exception": type(error).__name__, "text": _text(error)}


def to_error(given: Json, notes: str = "") -> Exception:
    """The error again: a CallError of the same class and code, ValueError and TypeError, else a WorkerError."""
    if "code" in given:
        return _call_error(given)
    name, text = str(given["exception"]), str(given["text"])
    kind = _PLAIN_ERRORS[name] if name in _PLAIN_ERRORS and not notes else _strange(name)
    made = kind(text)
    if notes:
        made.add_note(notes)
    return made


def _strange(name: str) -> type[Exception]:
    """A class of that name, which is all that is known of it here."""
    return type(name.replace("\0", ""), (WorkerError,), {})


def _call_error(given: Json) -> CallError:
    if "required" in given:
        return errors.MissingCapability(given["required"])
    kind = _LEAVES.get(given["code"], errors.ToolError)
    made = kind.__new__(kind)
    CallError.__init__(made, str(given["message"]), details=[str(line) for line in given["details"]])
    made.code = str(given["code"])
    if isinstance(made, errors.InvalidOutput):
        made.output = given.get("output")
    return made


def _text(error: BaseException) -> str:
    try:
        return str(plain(str(error)))
    except Exception:  # a stranger's __str__
        return "no text"


def from_question(question: Question) -> Json:
    """A question as JSON. Raises ValueError for one that cannot be asked, TypeError for what is none."""
    match question:
        case Form(message, schema):
            return {"form": {"message": str(plain(message)), "schema": form_of(schema).whole}}
        case Link(message, url):
            return {"link": {"message": str(plain(message)), "url": str(plain(url))}}
        case Sampling():
            given: Any = question.messages
            several = isinstance(given, Sequence) and not isinstance(given, str)
            options = {item.name: getattr(question, item.name) for item in fields(question)}
            return {"sampling": plain({**options, "messages": messages(given if several else [given], "")})}
        case Roots():
            return {"roots": {}}
    raise TypeError(f"expected a Form, a Link, Sampling or Roots, found {type(question).__name__}")


def to_question(given: Json) -> Question:
    """The question again; a form has its schema for a type. Raises KeyError, TypeError or ValueError."""
    kinds = {"form": Form, "link": Link, "sampling": Sampling, "roots": Roots}
    ((kind, values),) = given.items()
    made: Question = kinds[kind](**values)
    return made


def from_answer(answer: Any) -> Json:
    """What a client answered, as JSON."""
    if isinstance(answer, Answer):
        return {"answer": {"action": answer.action, "content": plain_mapping(answer.content)}}
    if isinstance(answer, Sampled):
        content = [dict(item) if isinstance(item, Mapping) else block(item, "") for item in answer.content]
        return {"sampled": {"role": answer.role, "content": content, "model": answer.model, "stop": answer.stop_reason}}
    return {"roots": [asdict(root) for root in answer]}


def to_answer(given: Json, asked: Question | None = None) -> Any:
    """The answer again; with the question that was asked, `data` is of its type.

    Raises Unfit for data that the type refuses.
    """
    if "roots" in given:
        return tuple(Root(**root) for root in given["roots"])
    if "sampled" in given:
        said = given["sampled"]
        content = tuple(from_block(item) for item in said["content"])
        return Sampled(role=said["role"], content=content, model=said["model"], stop_reason=said["stop"])
    action, content = given["answer"]["action"], given["answer"]["content"]
    data = content if asked is None else content or None
    if action == "accept" and (asked is None or isinstance(asked, Form)):
        data = content if asked is None else _read(asked.schema, content)
    return Answer(action=action, content=content, data=data)


def _read(schema: Any, content: Any) -> Any:
    form = form_of(schema)
    if problems := form.check(content):
        raise Unfit(problems)
    return form.read(content)


def from_needs(needs: NeedsInput) -> Json:
    """A handler's other answer as JSON. Raises ValueError for a question, or a state, that cannot be sent."""
    questions = {str(key): from_question(question) for key, question in needs.questions.items()}
    return {"questions": questions, "state": plain(needs.state)}


def to_needs(given: Json) -> NeedsInput:
    """The other answer again."""
    return NeedsInput({key: to_question(one) for key, one in given["questions"].items()}, given["state"])
