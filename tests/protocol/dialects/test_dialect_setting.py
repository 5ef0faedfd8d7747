"""The key `dialect` of the settings: a client, several clients, or single rules."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._engine.plugins import load_source_models
from mcp_bridge._protocol.dialects.dialect import NO_DIALECT, SchemaDialect
from mcp_bridge._protocol.dialects.table import PROFILES
from mcp_bridge._settings import build_json_schema, load


@functools.cache
def make_validator() -> jsonschema.Draft202012Validator:
    """Return the validator of editors for settings files."""
    return jsonschema.Draft202012Validator(build_json_schema(load_source_models()))


def load_dialect(value: Any, folder: Path) -> SchemaDialect:
    path = folder / "settings.json"
    path.write_text(json.dumps({"dialect": value}))
    return build_from_settings(load(path, {})).dialect


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, NO_DIALECT),
        ({}, NO_DIALECT),
        ("gemini-cli", PROFILES["gemini-cli"].dialect),
        (["claude-code", "gemini-cli"], PROFILES["claude-code"].dialect | PROFILES["gemini-cli"].dialect),
        ({"omit_empty": True}, SchemaDialect(omit_empty=True)),
        ({"clients": ["lm-studio"], "omit_empty": True}, SchemaDialect(parse_strings=True, omit_empty=True)),
    ],
)
def test_a_dialect_is_one_client_or_several_or_a_mapping_of_rules(
    value: Any, expected: SchemaDialect, tmp_path: Path
) -> None:
    assert load_dialect(value, tmp_path) == expected
    assert make_validator().is_valid({"dialect": value})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("gemini", "dialect: expected one of 'amp', 'antigravity'"),
        (["codex", "curser"], r"dialect\[1\]: expected one of"),
        ({"omit_empties": True}, "unknown key 'omit_empties', did you mean 'omit_empty'"),
        ({"omit_empty": "sometimes"}, "dialect.omit_empty: expected true or false"),
        (3, "dialect: expected a mapping of keys to values, found the number 3"),
    ],
)
def test_an_invalid_dialect_is_rejected_with_its_place(value: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        load_dialect(value, tmp_path)
    assert not make_validator().is_valid({"dialect": value})
