"""Changes of JSON-like data at any place, for fuzzing of messages and settings."""

from __future__ import annotations

from typing import Any


def list_paths(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value in some data: the keys and indexes that lead to it. The first path is empty."""
    paths = [path]
    members: Any = ()
    if isinstance(data, dict):
        members = data.items()
    elif isinstance(data, list):
        members = enumerate(data)
    for key, value in members:
        paths += list_paths(value, (*path, key))
    return paths


def change_at(data: Any, path: tuple[Any, ...], how: str, name: str, value: Any) -> Any:
    """Return a copy of some data with a change at a path.

    `how` is the change: drop or put (replace) the value, rename its key, wrap it in an array, swap it with another
    member, or add a member next to it. `name` and `value` are for the changes that need them. An array has no names, so
    its items are replaced instead of renamed or swapped.
    """
    if not path:
        if how == "put":
            return value
        return [data] if how == "wrap" else data
    key, *inner_path = path
    if inner_path:
        copied = data.copy()
        copied[key] = change_at(data[key], tuple(inner_path), how, name, value)
        return copied
    if isinstance(data, list):
        if how == "add":
            return [*data, value]
        if how == "drop":
            return data[:key] + data[key + 1 :]
        return [*data[:key], [data[key]] if how == "wrap" else value, *data[key + 1 :]]
    old = data[key]
    members = {member: item for member, item in data.items() if member != key}
    match how:
        case "drop":
            return members
        case "put":
            return {**data, key: value}
        case "rename":
            return {**members, name: old}
        case "wrap":
            return {**data, key: [old] if name else {name: old}}
        case "swap" if members:
            other = next(iter(members))
            return {**data, key: data[other], other: old}
    return {**data, name: value}
