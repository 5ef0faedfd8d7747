"""Secrets in the configuration of modules: modules get them, and hooks read the plan without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._integrations.amplifier.source.source import redact_config
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.kits.amplifier.observe_kit import read_json

SECRET = "c0rrect-horse"
MODULE = """
class Show:
    name, description = "show", "Shows its configuration."

    def __init__(self, config):
        self.config = config

    async def execute(self, input):
        return {**self.config, "length": len(self.config["api_key"])}


def mount(coordinator, config):
    plans = []
    coordinator.hooks.register("session:start", lambda event, data: plans.append(data["config"]))
    coordinator.register_contributor("plans", "show", lambda: plans)
    return Show(config)
"""


async def test_session_start_has_the_plan_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "showing.py").write_text(MODULE)
    (tmp_path / "s.yaml").write_text(
        "sources:\n  - type: amplifier\n    plan:\n      tools:\n        - module: showing\n          config:\n"
        "            {where: 'https://${SHOWN_TOKEN}@host', api_key: written-out, tokens: 5, at: [1, {pwd: x}]}\n"
    )
    async with connect(build_from_settings(load(tmp_path / "s.yaml", {"SHOWN_TOKEN": SECRET}))) as client:
        result = await client.call_tool("show", {})
        contributions = await read_json(client, "amplifier://amplifier/contributions")
    assert result.structured_content["length"] == len("written-out")
    assert result.structured_content["api_key"] == "[secret]"
    [[plan]] = [entry["value"] for entry in contributions["channels"]["plans"]]
    assert plan["tools"][0]["config"] == {
        "where": "https://[secret]@host",
        "api_key": "[secret]",
        "tokens": 5,
        "at": [1, {"pwd": "[secret]"}],
    }


def test_a_configuration_that_is_no_json_is_left_out() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert redact_config({"a": [{"token": "x", "tokens": ["y"]}]}) == {"a": [{"token": "[secret]", "tokens": ["y"]}]}
    assert redact_config({"endless": endless}) == {}
