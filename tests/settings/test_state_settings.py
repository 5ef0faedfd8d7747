"""Settings for sessions, and for state beyond one call. Their keys are secrets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings import Settings, load

# Each key has 32 bytes; the second has fewer letters.
STRONG, OTHER = "k" * 32, "ключ" * 4


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., Settings]:
    """Return a function that loads a YAML text as settings."""

    def made(text: str, **environ: str) -> Settings:
        path = tmp_path / "settings.yaml"
        path.write_text(text, encoding="utf-8")
        return load(path, environ)

    return made


def get_sealing_keys(found: Settings) -> list[str]:
    """Return the keys with which the bridge seals states."""
    return [key.get_secret_value() for key in found.state.keys]


def test_a_file_without_state_gets_the_defaults(settings):
    result = settings("sources: []")
    assert (result.state.store, result.state.keys, result.state.ttl) == ("memory", (), 600)
    http = result.http
    assert (http.sessions, http.idle) == (1000, 1800)


@pytest.mark.parametrize(
    "text",
    [
        f"[{STRONG}, {OTHER}]",
        f"{STRONG},{OTHER}",
        f"'  {STRONG}\n\n  {OTHER} ,'",
        f"[{STRONG}, '', {OTHER}]",
    ],
    ids=["list", "comma", "lines", "list with an empty entry"],
)
def test_keys_are_a_list_or_one_text(settings, text):
    assert get_sealing_keys(settings(f"state:\n  keys: {text}")) == [STRONG, OTHER]


@pytest.mark.parametrize("text", ["''", "[]", "['${KEYS:-}']"])
def test_without_keys_a_key_is_generated(settings, text):
    assert get_sealing_keys(settings(f"state:\n  keys: {text}")) == []


def test_keys_from_the_environment_and_the_file_are_redacted_in_the_log(settings):
    result = settings("state:\n  keys: ${KEYS}", KEYS=f"{STRONG},{OTHER}")
    assert get_sealing_keys(result) == [STRONG, OTHER]
    assert {STRONG, OTHER} <= result.secrets
    assert settings(f"state: {{keys: {STRONG}}}").secrets == {STRONG}


def test_keys_are_not_in_the_repr_of_the_settings(settings):
    assert STRONG not in repr(settings(f"state: {{keys: {STRONG}}}"))


@pytest.mark.parametrize("text", ["hush", f"{STRONG},hush", f"[{STRONG}, hush]", "'import secrets'"])
def test_a_short_key_is_rejected_with_a_command_that_makes_one(settings, text):
    with pytest.raises(ConfigError) as caught:
        settings(f"state:\n  keys: {text}")
    message = str(caught.value)
    assert ":2: state.keys" in message
    assert "expected keys of 32 or more bytes" in message
    assert "python3 -c 'import secrets; print(secrets.token_urlsafe(32))'" in message
    assert "(not shown)" in message
    assert "hush" not in message
    assert STRONG not in message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("state: {keys: 5}", "state.keys: expected a list, found a whole number (not shown)"),
        ("state: {keys: [[hush]]}", "state.keys[0]: expected text, found a list"),
        ("state: {store: ''}", "state.store: expected text of 1 or more characters, found text ''"),
        ("state: {ttl: 0}", "state.ttl: expected more than 0, found the number 0"),
        ("http: {idle: 0s}", "http.idle: expected more than 0, found text '0s'"),
        ("http: {sessions: true}", "http.sessions: expected a whole number, found true"),
    ],
)
def test_an_invalid_value_is_reported_with_the_expected_one(settings, text, problem):
    with pytest.raises(ConfigError) as caught:
        settings(text)
    assert str(caught.value).endswith(f":1: {problem}")
