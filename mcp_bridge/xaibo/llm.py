"""Conversations with a language model as Xaibo has them (xaibo.core.models.llm of 0.3)."""

from __future__ import annotations

import base64
import mimetypes
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field

from mcp_bridge.xaibo.models import Tool


class LLMRole(str, Enum):  # noqa: UP042 its text is `LLMRole.USER`, as in Xaibo
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    FUNCTION = "function"


class LLMMessageContentType(str, Enum):  # noqa: UP042 as above
    """What a part of a message is."""

    TEXT = "text"
    IMAGE = "image"


class LLMFunctionCall(BaseModel):
    """A call that the model asks for."""

    id: str
    name: str
    arguments: dict[str, Any]


class LLMFunctionResult(BaseModel):
    """What a call came to, as text."""

    id: str
    name: str
    content: str


class LLMMessageContent(BaseModel):
    """A part of a message: text, or a picture as a data URI."""

    type: LLMMessageContentType
    text: str | None = None
    image: str | None = None


class LLMMessage(BaseModel):
    """One message of a conversation."""

    role: LLMRole
    content: list[LLMMessageContent] = Field(default_factory=list)
    name: str | None = None
    tool_calls: list[LLMFunctionCall] | None = None
    tool_results: list[LLMFunctionResult] | None = None

    @classmethod
    def system(cls, content: str, name: str | None = None) -> Self:
        """What the model is told beforehand."""
        return cls(role=LLMRole.SYSTEM, content=[_text(content)], name=name)

    @classmethod
    def user(cls, content: str, name: str | None = None) -> Self:
        """What a person says."""
        return cls(role=LLMRole.USER, content=[_text(content)], name=name)

    @classmethod
    def user_image(cls, image_path: str, name: str | None = None) -> Self:
        """A picture that a person shows. Raises OSError where the file cannot be read."""
        kind = mimetypes.guess_type(image_path)[0] or ""
        kind = kind if kind.startswith("image/") else "image/jpeg"
        data = base64.b64encode(Path(image_path).read_bytes()).decode()
        part = LLMMessageContent(type=LLMMessageContentType.IMAGE, image=f"data:{kind};base64,{data}")
        return cls(role=LLMRole.USER, content=[part], name=name)

    @classmethod
    def assistant(cls, content: str, name: str | None = None) -> Self:
        """What the model says."""
        return cls(role=LLMRole.ASSISTANT, content=[_text(content)], name=name)

    @classmethod
    def function(cls, id: str, name: str, arguments: dict[str, Any]) -> Self:
        """A call that was asked for."""
        return cls(
            role=LLMRole.FUNCTION, name=name, tool_calls=[LLMFunctionCall(id=id, name=name, arguments=arguments)]
        )

    @classmethod
    def function_result(cls, id: str, name: str, content: str) -> Self:
        """What that call came to."""
        return cls(
            role=LLMRole.FUNCTION, name=name, tool_results=[LLMFunctionResult(id=id, name=name, content=content)]
        )


def _text(content: str) -> LLMMessageContent:
    return LLMMessageContent(type=LLMMessageContentType.TEXT, text=content)


class LLMOptions(BaseModel):
    """How the model is to answer; `functions` are the tools that it may call."""

    temperature: float | None = Field(default=1.0, ge=0, le=2)
    top_p: float | None = Field(default=1.0, ge=0, le=1)
    max_tokens: int | None = None
    stop_sequences: list[str] | None = None
    functions: list[Tool] | None = None
    vendor_specific: dict[str, Any] | None = Field(default_factory=dict)


class LLMUsage(BaseModel):
    """What an answer has cost, in tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class LLMResponse(BaseModel):
    """The model's answer: text, and the calls that it asks for."""

    content: str
    tool_calls: list[LLMFunctionCall] | None = None
    usage: LLMUsage | None = None
    vendor_specific: dict[str, Any] | None = Field(default_factory=dict)

    @classmethod
    def merge(cls, *responses: LLMResponse) -> Self:
        """Several answers as one: texts a line each, calls in order, tokens added up."""
        usages = [response.usage for response in responses if response.usage]
        return cls(
            content="\n".join(response.content for response in responses),
            tool_calls=list(chain.from_iterable(response.tool_calls or () for response in responses)) or None,
            usage=_total(usages) if usages else None,
            vendor_specific=dict(
                chain.from_iterable((response.vendor_specific or {}).items() for response in responses)
            ),
        )


def _total(usages: list[LLMUsage]) -> LLMUsage:
    return LLMUsage(**{name: sum(getattr(usage, name) for usage in usages) for name in LLMUsage.model_fields})
