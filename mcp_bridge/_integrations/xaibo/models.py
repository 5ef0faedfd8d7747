"""Copies of the models of Xaibo 0.3 for tools and for conversations with a language model (`xaibo.core.models`).

With them, providers can be written and served without xaibo. `mcp_bridge.xaibo` publishes them.
"""

from __future__ import annotations

import base64
import mimetypes
from enum import Enum
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, model_validator


class _Fields(BaseModel):
    """The base of models. They accept a model of another package with the same fields, such as xaibo's."""

    @model_validator(mode="before")
    @classmethod
    def _convert_model(cls, data: Any) -> Any:
        if isinstance(data, BaseModel) and not isinstance(data, cls):
            return {name: getattr(data, name) for name in cls.model_fields if name in data.model_fields_set}
        return data


class ToolParameter(_Fields):
    """One parameter of a tool.

    `type` may be any text. The names of JSON Schema, such as string and integer, have a meaning. The members of `enum`
    are texts even if the type is a number. The provider applies the default.

    >>> ToolParameter(type="string", description="Where to look", required=True).enum is None
    True
    """

    type: str
    description: str | None = None
    required: bool | None = False
    default: Any | None = None
    enum: list[str] | None = None


class Tool(_Fields):
    """A tool with its parameters by name.

    >>> city = ToolParameter(type="string", required=True)
    >>> Tool(name="forecast", description="The weather of tomorrow", parameters={"city": city}).name
    'forecast'
    """

    name: str
    description: str
    parameters: dict[str, ToolParameter] = Field(default_factory=dict)


class ToolResult(_Fields):
    """The result of a call: `result` on success, `error` on failure.

    >>> ToolResult(success=True, result=21)
    ToolResult(success=True, result=21, error=None)
    """

    success: bool
    result: Any | None = None
    error: str | None = None


class LLMRole(str, Enum):  # noqa: UP042 its text is `LLMRole.USER`, as in Xaibo
    """The author of a message.

    >>> LLMMessage.system("You are brief.").role is LLMRole.SYSTEM
    True
    """

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    FUNCTION = "function"


class LLMMessageContentType(str, Enum):  # noqa: UP042 as above
    """The type of a part of a message.

    >>> LLMMessageContentType("image").name
    'IMAGE'
    """

    TEXT = "text"
    IMAGE = "image"


class LLMFunctionCall(BaseModel):
    """A tool call of a model.

    >>> LLMFunctionCall(id="1", name="forecast", arguments={"city": "Ulm"}).arguments
    {'city': 'Ulm'}
    """

    id: str
    name: str
    arguments: dict[str, Any]


class LLMFunctionResult(BaseModel):
    """The result of a tool call for the model, as text.

    >>> LLMFunctionResult(id="1", name="forecast", content="rain").content
    'rain'
    """

    id: str
    name: str
    content: str


class LLMMessageContent(BaseModel):
    """A part of a message: text, or an image as a data URI.

    >>> LLMMessageContent(type=LLMMessageContentType.TEXT, text="Will it rain?").image is None
    True
    """

    type: LLMMessageContentType
    text: str | None = None
    image: str | None = None


class LLMMessage(BaseModel):
    """One message of a conversation.

    >>> LLMMessage.user("Will it rain?").content[0].text
    'Will it rain?'
    """

    role: LLMRole
    content: list[LLMMessageContent] = Field(default_factory=list)
    name: str | None = None
    tool_calls: list[LLMFunctionCall] | None = None
    tool_results: list[LLMFunctionResult] | None = None

    @classmethod
    def system(cls, content: str, name: str | None = None) -> Self:
        return cls(role=LLMRole.SYSTEM, content=[_make_text(content)], name=name)

    @classmethod
    def user(cls, content: str, name: str | None = None) -> Self:
        return cls(role=LLMRole.USER, content=[_make_text(content)], name=name)

    @classmethod
    def user_image(cls, image_path: str, name: str | None = None) -> Self:
        """Build a message with an image. Raises OSError if the file cannot be read."""
        mime_type = mimetypes.guess_type(image_path)[0] or ""
        if not mime_type.startswith("image/"):
            mime_type = "image/jpeg"
        data = base64.b64encode(Path(image_path).read_bytes()).decode()
        image = LLMMessageContent(type=LLMMessageContentType.IMAGE, image=f"data:{mime_type};base64,{data}")
        return cls(role=LLMRole.USER, content=[image], name=name)

    @classmethod
    def assistant(cls, content: str, name: str | None = None) -> Self:
        return cls(role=LLMRole.ASSISTANT, content=[_make_text(content)], name=name)

    @classmethod
    def function(cls, id: str, name: str, arguments: dict[str, Any]) -> Self:
        return cls(
            role=LLMRole.FUNCTION, name=name, tool_calls=[LLMFunctionCall(id=id, name=name, arguments=arguments)]
        )

    @classmethod
    def function_result(cls, id: str, name: str, content: str) -> Self:
        return cls(
            role=LLMRole.FUNCTION, name=name, tool_results=[LLMFunctionResult(id=id, name=name, content=content)]
        )


def _make_text(content: str) -> LLMMessageContent:
    return LLMMessageContent(type=LLMMessageContentType.TEXT, text=content)


class LLMOptions(BaseModel):
    """Options for a response; `functions` are the tools of the model.

    >>> LLMOptions(temperature=0).max_tokens is None
    True
    """

    temperature: float | None = Field(default=1.0, ge=0, le=2)
    top_p: float | None = Field(default=1.0, ge=0, le=1)
    max_tokens: int | None = None
    stop_sequences: list[str] | None = None
    functions: list[Tool] | None = None
    vendor_specific: dict[str, Any] | None = Field(default_factory=dict)


class LLMUsage(BaseModel):
    """The tokens of a response.

    >>> LLMUsage(prompt_tokens=20, completion_tokens=5, total_tokens=25).total_tokens
    25
    """

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class LLMResponse(BaseModel):
    """A response of the model: text, and calls of tools.

    >>> LLMResponse.merge(LLMResponse(content="Yes."), LLMResponse(content="Take a coat.")).content
    'Yes.\\nTake a coat.'
    """

    content: str
    tool_calls: list[LLMFunctionCall] | None = None
    usage: LLMUsage | None = None
    vendor_specific: dict[str, Any] | None = Field(default_factory=dict)

    @classmethod
    def merge(cls, *responses: LLMResponse) -> Self:
        """Merge responses: texts on separate lines, calls in order, tokens added up."""
        calls: list[LLMFunctionCall] = []
        vendor_specific: dict[str, Any] = {}
        usage: LLMUsage | None = None
        for response in responses:
            calls += response.tool_calls or ()
            vendor_specific |= response.vendor_specific or {}
            if response.usage is not None:
                if usage is None:
                    usage = LLMUsage(prompt_tokens=0, completion_tokens=0, total_tokens=0)
                usage.prompt_tokens += response.usage.prompt_tokens
                usage.completion_tokens += response.usage.completion_tokens
                usage.total_tokens += response.usage.total_tokens
        content = "\n".join(response.content for response in responses)
        return cls(content=content, tool_calls=calls or None, usage=usage, vendor_specific=vendor_specific)
