"""Encodes results, errors, questions and answers as JSON, and decodes them, for messages between bridge and worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import anyio

from mcp_bridge._contracts import errors
from mcp_bridge._contracts.content import Content, Message
from mcp_bridge._contracts.errors import CallError
from mcp_bridge._contracts.handlers import NeedsInput
from mcp_bridge._contracts.question import Answer, Form, Link, Question, Root, Roots, Sampled, Sampling
from mcp_bridge._contracts.running_call import RunningCall
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._isolation.order import CONTEXT_FIELDS
from mcp_bridge._json_schema.forms import create_form
from mcp_bridge._protocol.wire.content import render_block
from mcp_bridge._protocol.wire.content_reader import from_block
from mcp_bridge._protocol.wire.messages import render_messages
from mcp_bridge._protocol.wire.outcomes import TABLE
from mcp_bridge._protocol.wire.protocol_versions import IN_PROCESS
from mcp_bridge._protocol.wire.values import to_plain, to_plain_mapping

Json = dict[str, Any]
_ERRORS_BY_CODE = {row.code: row.error for row in TABLE}
_PLAIN_ERRORS = {"ValueError": ValueError, "TypeError": TypeError}


class InvalidFormData(ValueError):
    """An answer fits the schema of the question, but not its Python type. `problems` has a line for each mistake."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class WorkerError(Exception):
    """An exception of a tool in a worker, whose class is only known there.

    It has the same text, a subclass with the name of the class, and the traceback as a note.
    """


def encode_result(result: ToolResult, *, of_prompt: bool = False) -> Json:
    """Return a result as JSON. Its output must be JSON-ready. If it is `of_prompt`, its content has messages."""
    content: Any = result.content
    if isinstance(content, str | bytes | Content):
        content = [content]
    if content is not None:
        content = list(content)
        for index, item in enumerate(content):
            if of_prompt and isinstance(item, Message):
                content[index] = {"role": item.role, **render_messages([item], IN_PROCESS)[0]}
            else:
                content[index] = render_block(item, IN_PROCESS)
    error: Any = None
    if isinstance(result.error, str):
        error = str(to_plain(result.error))
    elif result.error is not None:
        error = to_plain_mapping(result.error)
    return {
        "success": bool(result.success),
        "output": result.output,
        "error": error,
        "content": content,
        "code": to_plain(result.code),
        "meta": to_plain_mapping(result.meta) or None,
    }


def decode_result(data: Json) -> ToolResult:
    """Return the result in a message. Raises KeyError, TypeError or ValueError if it is invalid."""
    content = _check_type(data["content"], list)
    if content is not None:
        content = tuple(_decode_content(item) for item in content)
    return ToolResult(
        success=bool(data["success"]),
        output=data["output"],
        error=_check_type(data["error"], str, dict),
        content=content,
        code=_check_type(data["code"], str),
        meta=_check_type(data["meta"], dict),
    )


def _check_type(value: Any, *types: type) -> Any:
    """Return a value, which must be None or of one of these types. Raises TypeError."""
    if value is not None and not isinstance(value, types):
        raise TypeError(f"found {type(value).__name__}")
    return value


def _decode_content(item: Any) -> Any:
    if "role" in _check_type(item, dict):
        inner: Any = from_block(item["content"])
        return Message(inner, item["role"])
    return from_block(item)


def encode_error(error: BaseException) -> Json:
    """Return an error as JSON: all fields of a CallError, or the type and the text of another error."""
    if isinstance(error, CallError):
        values: Json = {name: str(to_plain(getattr(error, name))) for name in ("code", "message")}
        values["details"] = to_plain(list(error.details))
        if isinstance(error, errors.MissingCapability):
            values["required"] = to_plain_mapping(error.required)
        if isinstance(error, errors.InvalidOutput):
            values["output"] = to_plain(error.output)
        return values
    return {"exception": type(error).__name__, "text": _get_error_text(error)}


def decode_error(data: Json, notes: str = "") -> Exception:
    """Return the error in a message. `notes` are the lines of the traceback.

    It is a CallError of the same class and code, a ValueError, a TypeError, or a WorkerError.
    """
    if "code" in data:
        return _decode_call_error(data)
    name, text = str(data["exception"]), str(data["text"])
    if name in _PLAIN_ERRORS and not notes:
        return _PLAIN_ERRORS[name](text)
    # A type with the same name takes the place of the class. NUL is not allowed in names of types.
    error: Exception = type(name.replace("\0", ""), (WorkerError,), {})(text)
    if notes:
        error.add_note(notes)
    return error


def _decode_call_error(data: Json) -> CallError:
    if "required" in data:
        return errors.MissingCapability(data["required"])
    error_class = _ERRORS_BY_CODE.get(data["code"], errors.ToolError)
    # The constructors of the classes have different parameters, and make the message from them.
    error = error_class.__new__(error_class)
    CallError.__init__(error, str(data["message"]), details=[str(line) for line in data["details"]])
    error.code = str(data["code"])
    if isinstance(error, errors.InvalidOutput):
        error.output = data.get("output")
    return error


def _get_error_text(error: BaseException) -> str:
    try:
        return str(to_plain(str(error)))
    except Exception:
        # A `__str__` may raise anything.
        return "no text"


def encode_question(question: Question) -> Json:
    """Return a question as JSON. Raises ValueError if it cannot be asked, TypeError for other types."""
    match question:
        case Form(message, schema):
            full_schema = create_form(schema).full_schema if schema is not None else None
            return {"form": {"message": str(to_plain(message)), "schema": full_schema}}
        case Link(message, url):
            return {"link": {"message": str(to_plain(message)), "url": str(to_plain(url))}}
        case Sampling():
            messages: Any = question.messages
            if isinstance(messages, str) or not isinstance(messages, Sequence):
                messages = [messages]
            values = {item.name: getattr(question, item.name) for item in fields(question)}
            values["messages"] = render_messages(messages, IN_PROCESS)
            return {"sampling": to_plain(values)}
        case Roots():
            return {"roots": {}}
    raise TypeError(f"expected a Form, a Link, Sampling or Roots, found {type(question).__name__}")


def decode_question(data: Json) -> Question:
    """Return the question in a message. A form has its schema instead of a Python type.

    Raises KeyError, TypeError or ValueError if the question is invalid.
    """
    question_classes = {"form": Form, "link": Link, "sampling": Sampling, "roots": Roots}
    ((name, values),) = data.items()
    question: Question = question_classes[name](**values)
    return question


def encode_answer(answer: Any) -> Json:
    if isinstance(answer, Answer):
        return {"answer": {"action": answer.action, "content": to_plain_mapping(answer.content)}}
    if isinstance(answer, Sampled):
        content = [
            dict(item) if isinstance(item, Mapping) else render_block(item, IN_PROCESS) for item in answer.content
        ]
        return {"sampled": {"role": answer.role, "content": content, "model": answer.model, "stop": answer.stop_reason}}
    return {"roots": [asdict(root) for root in answer]}


def decode_answer(message: Json, question: Question | None = None) -> Any:
    """Return the answer in a message. If the question is given, `data` is converted to its Python type.

    Raises InvalidFormData if the answer does not fit the type.
    """
    if "roots" in message:
        return tuple(Root(**root) for root in message["roots"])
    if "sampled" in message:
        sampling = message["sampled"]
        content = tuple(from_block(item) for item in sampling["content"])
        return Sampled(role=sampling["role"], content=content, model=sampling["model"], stop_reason=sampling["stop"])
    action, content = message["answer"]["action"], message["answer"]["content"]
    data = content
    if question is not None and not content:
        data = None
    if action == "accept" and isinstance(question, Form):
        form = create_form(question.schema)
        problems = form.list_problems(content)
        if problems:
            raise InvalidFormData(problems)
        data = form.read_answer(content)
    return Answer(action=action, content=content, data=data)


def encode_needs(needs: NeedsInput) -> Json:
    """Return a NeedsInput as JSON. Raises ValueError for an invalid question or state."""
    questions = {str(key): encode_question(question) for key, question in needs.questions.items()}
    return {"questions": questions, "state": to_plain(needs.state)}


def decode_needs(data: Json) -> NeedsInput:
    return NeedsInput({key: decode_question(question) for key, question in data["questions"].items()}, data["state"])


def encode_context(ctx: RunningCall) -> Json:
    return {
        **{name: getattr(ctx, name) for name in CONTEXT_FIELDS},
        "state_key": ctx.state_key,
        "attempt": ctx.attempt,
        "idempotency_key": ctx.idempotency_key,
        "meta": to_plain_mapping(ctx.meta),
        "capabilities": to_plain_mapping(ctx.capabilities),
        "answers": {key: encode_answer(answer) for key, answer in ctx.answers.items()},
        "state": to_plain(ctx.state),
        "left": get_time_left(ctx),
    }


def get_time_left(ctx: RunningCall) -> float | None:
    return None if ctx.deadline is None else ctx.deadline - anyio.current_time()
