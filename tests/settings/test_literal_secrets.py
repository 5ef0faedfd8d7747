"""Secrets written into the settings are redacted by the name of their key, such as `api_key`."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._integrations.amplifier.source.source import redact_config
from mcp_bridge._json_schema.secret_names import find_secret_values, is_secret_key
from mcp_bridge._settings import Document, Settings, parse
from mcp_bridge._settings.model import SourceSettings
from tests.client.server_process import Way
from tests.kits.constants import TIMEOUT
from tests.kits.survival.survival_kit import WAYS, run_server

SECRET = "sk-9f31-literal"
FAILING = """
async def mount(coordinator, config):
    raise ConnectionError(f"cannot sign in with {config['headers']['Authorization']}")
"""
SAYING = """
import logging

from mcp_bridge.amplifier import ToolResult


class Say:
    name = "say"
    description = "Says."

    async def execute(self, input):
        logging.getLogger("saying").error("said %s", KEY)
        return ToolResult(output=f"said {KEY}")


async def mount(coordinator, config):
    global KEY
    KEY = config["api_key"]
    await coordinator.mount("tools", Say())
"""


@pytest.mark.parametrize(
    "key",
    [
        "api_key", "apikey", "apiKey", "x-api-key", "OPENAI_API_KEY", "api_key_2", "token", "access_token",
        "accessToken", "refresh_token", "auth_token", "password", "passwd", "db_password", "secret", "client_secret",
        "private_key", "Authorization", "bearer", "credential", "credentials", "connection_string",
        "connectionString", "token_value",
    ],
)  # fmt: skip
def test_keys_that_name_a_secret(key: str) -> None:
    assert is_secret_key(key)


@pytest.mark.parametrize(
    "key",
    ["max_tokens", "token_limit", "tokens", "tokenizer", "key", "keys", "token_env", "api_key_env", "token_url",
     "password_file", "password_hint", "secretary", "author", "bearer_format", "", "1"],
)  # fmt: skip
def test_keys_that_name_no_secret(key: str) -> None:
    assert not is_secret_key(key)


@pytest.mark.parametrize(
    ("data", "secrets"),
    [
        ({"a": [{"token": "t-12345"}], "path": "tools.py"}, ["t-12345"]),
        ({"password": 1234567, "secret": True, "token": None, "api_key": ""}, []),
        ({"api_keys": ["k-12345", "k-67890"]}, ["k-12345", "k-67890"]),
        ({"Authorization": "Bearer t-12345"}, ["Bearer t-12345", "t-12345"]),
        ({"secrets": {"stripe": "s-12345", "region": "eu", "mode": "live"}}, ["s-12345"]),
        ({"properties": {"password": {"type": "string", "description": "The password."}}}, []),
        ({"credentials": {"type": "service_account", "private_key": "p-12345"}}, ["p-12345"]),
    ],
    ids=str,
)
def test_texts_under_these_keys_are_secrets(data: Any, secrets: list[str]) -> None:
    assert list(find_secret_values(data)) == secrets


def test_the_secrets_of_settings_include_those_of_sources_but_no_names_of_tools() -> None:
    source = {"type": "python", "path": "tools.py", "alias": {"token": "issue_token"}, "config": {"token": SECRET}}
    loaded = parse(Document(path="", data={"sources": [source]}), {})
    assert loaded.secrets == loaded.hidden_from_clients == {SECRET}
    built = Settings(sources=(SourceSettings(type="python", options={"config": {"token": SECRET}}),))
    assert built.hidden_from_clients == {SECRET}


def test_a_value_from_the_environment_is_a_secret_also_by_its_key() -> None:
    source = {"type": "python", "path": "tools.py", "password": "${WORD}"}
    assert parse(Document(path="", data={"sources": [source]}), {"WORD": "postgre"}).hidden_from_clients == {"postgre"}


def test_the_description_of_a_plan_has_no_secrets() -> None:
    assert redact_config({"headers": {"Authorization": "Bearer x"}}) == {"headers": {"Authorization": "[secret]"}}


@pytest.mark.parametrize("way", [WAYS[0], Way("http", True)], ids=str)
def test_a_literal_secret_is_in_no_message_log_or_file(way: Way, tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    (tmp_path / "saying.py").write_text(SAYING)
    headers = {"Authorization": f"Bearer {SECRET}"}
    plan = {
        "tools": [
            {"module": "saying", "source": "saying.py", "config": {"api_key": SECRET}},
            {"module": "failing", "source": "failing.py", "config": {"headers": headers}},
        ]
    }
    settings = {"sources": [{"type": "amplifier", "plan": plan}]}
    with run_server(way, tmp_path, settings=settings) as server:
        assert server.get_text("say") == "said [secret]"
        status = server.send_request("resources/read", {"uri": "amplifier://amplifier/status"}).result(TIMEOUT)
        server.wait_for_stderr("cannot sign in with")
        server.wait_for_stderr("said [secret]")
        server.signal(signal.SIGTERM)
        server.wait()
    assert "cannot sign in with" in json.dumps(status)
    assert SECRET not in json.dumps(status) + server.stderr
