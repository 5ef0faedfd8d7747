"""Types and functions for the tests of schemas."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import typing
from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple, NotRequired

import jsonschema_rs
import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from mcp_bridge._contracts.errors import InvalidArguments
from mcp_bridge._json_schema.inference import Signature


class Unit(enum.Enum):
    CELSIUS = "celsius"
    KELVIN = "kelvin"


class Level(enum.IntEnum):
    LOW = 1


class Kind(enum.StrEnum):
    PLAIN = "plain"


class Point(NamedTuple):
    x: int
    y: int = 0


class Options(TypedDict):
    deep: bool
    depth: NotRequired[int]


class OldOptions(typing.TypedDict):
    deep: bool


@dataclasses.dataclass
class Period:
    start: date
    days: int = 1


class Place(BaseModel):
    name: str
    tags: set[str] = set()


class Trip(BaseModel):
    """A way to go."""

    stops: list[Place]
    period: Period | None = None


class Node(BaseModel):
    value: int
    next: Node | None = None


class Opaque:
    pass


def make_function(annotation: Any, default: Any = inspect.Parameter.empty) -> Callable[..., Any]:
    """Return a function with one parameter `it` of this type."""

    def tool(**given: Any) -> Any:
        return given

    parameter = inspect.Parameter("it", inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
    tool.__signature__ = inspect.Signature([parameter])
    return tool


def make_returning_function(annotation: Any) -> Callable[..., Any]:
    def tool() -> Any: ...

    tool.__signature__ = inspect.Signature([], return_annotation=annotation)
    return tool


def is_valid(schema: dict[str, Any], data: Any) -> bool:
    return jsonschema_rs.validator_for(schema).is_valid(data)


def get_problems(signature: Signature, data: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidArguments) as caught:
        signature.bind(data)
    return caught.value.details
