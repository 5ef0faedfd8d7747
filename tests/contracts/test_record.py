"""A record is what a frozen dataclass with slots is."""

from __future__ import annotations

import copy
import pickle
from dataclasses import KW_ONLY, FrozenInstanceError, asdict, dataclass, field, replace
from typing import Any

import pytest

from mcp_bridge.contracts.record import record

frozen = {"record": record, "dataclass": dataclass(frozen=True, slots=True, kw_only=True)}
positional = {"record": record(kw_only=False), "dataclass": dataclass(frozen=True, slots=True)}


class Point:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)
    size: int = field(init=False, default=1)
    seen: list[int] = field(init=False, default_factory=list, compare=False)


class Line:
    start: int
    end: int = 5
    _: KW_ONLY
    name: str = "line"

    def __post_init__(self) -> None:
        if self.end < self.start:
            object.__setattr__(self, "end", self.start)


@record
class Pickled:
    """A record of this module, which pickle finds by its name."""

    a: int
    b: str = "b"


@pytest.fixture(params=["record", "dataclass"])
def make(request: pytest.FixtureRequest) -> Any:
    """Decorates a copy of a class, as a record or as a dataclass: both have to behave alike."""

    def decorate(cls: type, decorators: dict[str, Any] = frozen) -> Any:
        members = {name: value for name, value in vars(cls).items() if name not in {"__dict__", "__weakref__"}}
        return decorators[request.param](type(cls.__name__, (), members))

    return decorate


def test_a_record_has_the_fields_and_defaults_of_its_annotations(make: Any) -> None:
    cls = make(Point)
    point = cls(x=1)
    assert (point.x, point.y, point.tags, point.note, point.size, point.seen) == (1, 0, [], "", 1, [])
    assert cls(x=1).tags is not point.tags
    assert not hasattr(point, "__dict__")
    assert repr(cls(x=1, y=2, tags=["a"])) == "Point(x=1, y=2, tags=['a'], size=1, seen=[])"


def test_records_are_equal_if_their_compared_fields_are(make: Any) -> None:
    one, same, other = make(Line)(start=1), make(Line), make(Point)
    assert one == type(one)(start=1, end=5)
    assert one != type(one)(start=2)
    assert one != same(start=1)
    assert other(x=1, note="a") == other(x=1, note="b")
    assert one != 1
    assert hash(one) == hash(type(one)(start=1))
    with pytest.raises(TypeError, match="unhashable"):
        hash(other(x=1))


def test_a_record_cannot_be_changed(make: Any) -> None:
    point = make(Point)(x=1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x


def test_a_record_takes_keywords_only_unless_it_says_otherwise(make: Any) -> None:
    line = make(Line, positional)
    assert (line(1, 2, name="a").end, line(7).end) == (2, 7)
    for call in (lambda: line(1, 2, "a"), lambda: make(Point)(1), lambda: make(Point)(), lambda: line(1, size=1)):
        with pytest.raises(TypeError):
            call()


def test_a_record_can_be_replaced_matched_and_turned_into_a_dict(make: Any) -> None:
    line = make(Line, positional)(1, 2)
    assert replace(line, end=3).end == 3
    assert asdict(line) == {"start": 1, "end": 2, "name": "line"}
    match line:
        case object(start=1, end=end):
            assert end == 2
    assert type(line).__match_args__ == ("start", "end")


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda item: pickle.loads(pickle.dumps(item))])
def test_a_record_can_be_copied(duplicate: Any) -> None:
    item = Pickled(a=1, b="c")
    assert duplicate(item) == item


def test_a_record_inherits_the_fields_of_a_record() -> None:
    @record
    class Wide(Pickled):
        """With one field more."""

        c: int = 3

    assert repr(Wide(a=1)).endswith("Wide(a=1, b='b', c=3)")
    assert Wide(a=1) != Pickled(a=1)


def test_a_record_that_contains_itself_can_be_shown() -> None:
    item = Pickled(a=[])  # type: ignore[arg-type]
    item.a.append(item)  # type: ignore[attr-defined]
    assert repr(item) == "Pickled(a=[...], b='b')"


def test_a_method_of_the_class_takes_precedence() -> None:
    @record
    class Quiet:
        """Says nothing."""

        secret: str

        def __repr__(self) -> str:
            return "Quiet()"

    assert repr(Quiet(secret="s")) == "Quiet()"
