"""A new entry over the one that stands there: what a person has added to it stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bridge.clients.client import Client
from mcp_bridge.clients.shaping import reference


def merged(client: Client, old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    """The new entry with what the old one has besides: other keys, and variables that are not references of ours."""
    env = next((key for key, text in client.shape.items() if text == "{env}"), None)
    optional = {key for key, text in client.shape.items() if text in ("{env}", "{secrets}")}
    kept = {key: value for key, value in old.items() if key not in optional}
    result = {**kept, **new}
    if env is not None and isinstance(old.get(env), Mapping):
        own = {name: text for name, text in old[env].items() if text != reference(client, name)}
        both = {**own, **new.get(env, {})}
        if both or not old[env]:
            result[env] = {name: both[name] for name in [*(name for name in old[env] if name in both), *both]}
    return {key: result[key] for key in [*(key for key in old if key in result), *result]}
