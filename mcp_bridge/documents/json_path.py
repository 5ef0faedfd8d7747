"""The path to an entry of a JSON text: the containers that its keys lead through, each present once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bridge.documents.edit import Target, unsafe
from mcp_bridge.documents.json_syntax import Member, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """How far the way to an entry goes: the containers on it, the members that lead from each to the next."""

    containers: Sequence[Value]
    members: Sequence[Member]
    entry: Member | None


def find(root: Value, target: Target) -> Found:
    """The way to the entry, as far as it is there."""
    containers, members, value = [root], list[Member](), root
    for key in target.within:
        _expect(value, "object", target, len(members))
        member = _only([member for member in value.members if member.key == key], key)
        if member is None:
            return Found(containers=containers, members=members, entry=None)
        value = member.value
        members.append(member)
        containers.append(value)
    _expect(value, "array" if target.listed else "object", target, len(members))
    if target.listed:
        named = [item for item in value.members if _name(item.value, target.known_by) == target.name]
    else:
        named = [member for member in value.members if member.key == target.name]
    return Found(containers=containers, members=members, entry=_only(named, target.name))


def _expect(value: Value, kind: str, target: Target, depth: int) -> None:
    if value.kind != kind:
        what = "a list" if kind == "array" else "an object"
        line = value.source.data.count(b"\n", 0, value.span[0]) + 1
        raise unsafe(f"not {what}", line=line, where=".".join(target.within[:depth]) or "the whole file")


def _only(members: Sequence[Member], name: str) -> Member | None:
    if len(members) > 1:
        line = members[1].value.source.data.count(b"\n", 0, members[1].start) + 1
        raise unsafe(f"'{name}' stands there twice", line=line)
    return members[0] if members else None


def _name(item: Value, known_by: str) -> Any:
    names = [member.value.plain for member in item.members if member.key == known_by]
    return names[-1] if names else None
