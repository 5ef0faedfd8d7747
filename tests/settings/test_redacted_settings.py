"""Values of the environment are redacted in answers to clients, except for ordinary words."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bridge._settings import Document, expand, parse
from mcp_bridge._settings.environment import _COMMON_KEYS
from mcp_bridge._settings.model import SourceSettings

KEY = "k" * 32


def find_hidden_values(data: dict[str, Any], **environ: str) -> frozenset[str]:
    """Return the values of settings that are hidden from clients."""
    return parse(Document(path="", data=data), environ).hidden_from_clients


def build_settings(**keys: Any) -> dict[str, Any]:
    """Return settings with one source."""
    return {"sources": [{"type": "python", "path": "tools.py", **keys}]}


@pytest.mark.parametrize("place", ["name", "instructions"])
def test_values_of_settings_for_clients_are_not_redacted_for_clients(place: str) -> None:
    assert find_hidden_values({place: "for ${WHOM}"}, WHOM="the team of 4b") == frozenset()


@pytest.mark.parametrize("variable", ["MY_TOKEN", "db_password", "GITHUB_AUTH"])
def test_a_variable_with_the_name_of_a_secret_is_redacted_in_every_section(variable: str) -> None:
    assert find_hidden_values({"title": f"${{{variable}}}"}, **{variable: "abcdef"}) == {"abcdef"}


def test_names_and_filters_of_a_source_are_for_clients_and_its_options_are_not() -> None:
    options = build_settings(prefix="${WHOM}", tags=["${TAG}"], alias={"a": "${ALIAS}"})
    assert find_hidden_values(options, WHOM="team_4b", TAG="tag-4b", ALIAS="alias-4b") == frozenset()
    assert find_hidden_values(build_settings(url="https://${PLACE}/"), PLACE="inner.example.org") == {
        "inner.example.org"
    }


def test_a_value_in_options_and_in_settings_for_clients_is_redacted() -> None:
    assert find_hidden_values({**build_settings(tools=["${X}"]), "title": "${X}"}, X="value-4b") == {"value-4b"}


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [("user", False), ("8080", False), ("postgres", True), ("808080", True)],
)
def test_ordinary_words_and_numbers_are_not_redacted(value: str, is_kept: bool) -> None:
    assert find_hidden_values(build_settings(tools=["${X}"]), X=value) == ({value} if is_kept else frozenset())
    assert find_hidden_values(build_settings(tools=["${X_PASS}"]), X_PASS=value) == {value}


def test_state_keys_are_redacted_from_any_origin() -> None:
    assert find_hidden_values({"state": {"keys": [KEY]}}) == {KEY}
    assert find_hidden_values({"title": "${A}", "state": {"keys": ["${A}"]}}, A=KEY) == {KEY}


def test_limits_and_addresses_are_no_secrets() -> None:
    data = {"http": {"allowed_hosts": ["${HOST}"]}, "limits": {"result": "${MOST}"}}
    assert find_hidden_values(data, HOST="tools.example.org", MOST="4194304") == frozenset()


def test_values_visible_to_clients_are_redacted_in_the_log() -> None:
    document = expand(Document(path="", data={"title": "${T}", "sources": [{"x": "${U}"}]}), {"T": "t1", "U": "u1-2"})
    assert document.secrets == {"t1", "u1-2"}
    assert document.visible_secrets == {"t1"}


def test_the_keys_for_clients_are_the_common_keys_of_sources() -> None:
    assert set(SourceSettings.model_fields) >= _COMMON_KEYS
