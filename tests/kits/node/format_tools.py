"""Tools with typed results in various formats, and values that break these formats."""

from __future__ import annotations

import datetime
import decimal
import ipaddress
import uuid
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AwareDatetime, Base64Bytes, BaseModel, Field, HttpUrl
from typing_extensions import TypedDict

from mcp_bridge import tool

NAIVE = datetime.datetime(2026, 11, 28, 12, 30)
DURATION = datetime.timedelta(hours=1, minutes=5)
ANY: Any = "not of this format"


class Event(BaseModel):
    start: datetime.datetime
    aware: AwareDatetime
    length: datetime.timedelta
    contact: Annotated[str, Field(json_schema_extra={"format": "email"})]
    amount: decimal.Decimal
    data: Base64Bytes


@dataclass
class Shift:
    start: datetime.time
    length: datetime.timedelta


class Day(TypedDict):
    date: datetime.date
    starts: list[datetime.datetime]


@tool
def model() -> Event:
    return Event.model_construct(
        start=NAIVE, aware=ANY, length=-DURATION, contact=ANY, amount=decimal.Decimal("1E+5"), data=b"YQ=="
    )


@tool
def dataclass() -> Shift:
    return Shift(datetime.time(12, 30), DURATION)


@tool
def typed_dict() -> Day:
    return {"date": NAIVE, "starts": [NAIVE]}


@tool
def moment() -> datetime.datetime:
    return NAIVE


@tool
def clock() -> datetime.time:
    return datetime.time(12, 30)


@tool
def length() -> datetime.timedelta:
    return DURATION


@tool
def lengths() -> dict[str, datetime.timedelta]:
    return {"a": datetime.timedelta(seconds=0.5), "b": -DURATION, "c": datetime.timedelta(days=400)}


@tool
def texts() -> list[
    uuid.UUID | HttpUrl | ipaddress.IPv4Address | ipaddress.IPv6Address | datetime.date | decimal.Decimal | None
]:
    return [ANY, decimal.Decimal("NaN"), None]


@tool(output_schema={"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}})
def promised() -> dict[str, Any]:
    return {"at": "at noon"}


class Word(BaseModel):
    """A pattern in the regular expression syntax of pydantic, which is invalid in JavaScript."""

    text: Annotated[str, Field(pattern=r"^(?P<letters>\w+)$")]


class Letters(BaseModel):
    text: Annotated[str, Field(pattern=r"^\w+$")]


@tool
def letters() -> Letters:
    return Letters(text="café")


@tool
def word() -> Word:
    return Word(text="tea")


DRAFT_4 = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "id": "http://localhost/price",
    "type": "object",
    "properties": {"price": {"type": "number", "minimum": 0, "exclusiveMinimum": True}},
}
PAIR = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}
LETTERS = {"oneOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^b"}], "nullable": True}


@tool(output_schema=DRAFT_4)
def price() -> dict[str, Any]:
    return {"price": 1}


@tool(output_schema={"type": "object", "properties": {"pair": PAIR, "letters": LETTERS}})
def parts() -> dict[str, Any]:
    return {"pair": [1, "a"], "letters": "b"}
