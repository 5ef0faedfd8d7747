"""Tools as Xaibo describes them (xaibo.core.models.tools of 0.3): a tool, its parameters, what it answers."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field, PrivateAttr, model_validator


class _Fields(BaseModel):
    """A model that is also read from the model of another package, such as xaibo's own, by its fields."""

    @model_validator(mode="before")
    @classmethod
    def _of_another_package(cls, given: Any) -> Any:
        if isinstance(given, BaseModel) and not isinstance(given, cls):
            return {name: getattr(given, name) for name in cls.model_fields if name in given.model_fields_set}
        return given


class ToolParameter(_Fields):
    """One parameter of a tool.

    `type` is free text; string, number, integer, boolean, object, array and null are understood. `enum` is text also
    where the type is a number. A default is the provider's to apply.
    """

    type: str
    description: str | None = None
    required: bool | None = False
    default: Any | None = None
    enum: list[str] | None = None


class Tool(_Fields):
    """A tool: its name, what it is for, and its parameters by name."""

    name: str
    description: str
    parameters: dict[str, ToolParameter] = Field(default_factory=dict)

    _input_schema: dict[str, Any] | None = PrivateAttr(default=None)
    """The JSON Schema that the parameters were made from, where they cannot say all of it."""


class ToolResult(_Fields):
    """What a tool answers: `result` where it succeeded, `error` where it did not."""

    success: bool
    result: Any | None = None
    error: str | None = None
