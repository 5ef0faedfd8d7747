"""Hooks govern every call of every source: Python files, registries, chains, worker processes, Amplifier modules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._settings import load
from mcp_bridge.testing import connect
from tests.kits.constants import EVERY_ERA, STATELESS
from tests.kits.hooks.hooked_sources import TOOL_NAMES, TOOLS, write_settings
from tests.kits.hooks.hooks_kit import ScriptedUser, get_code, get_texts

pytestmark = pytest.mark.usefixtures("forgotten")
ERAS_AND_HOSTS = pytest.mark.parametrize(
    ("mode", "host"), [("legacy", "core"), (STATELESS, "native")], indirect=["host"]
)
"""Each era once and each host once: what differs by one does not depend on the other."""


def build_bridge(folder: Path, **more: Any) -> Any:
    """Return a bridge with every kind of source."""
    return build_from_settings(load(write_settings(folder, **more), {}))


@ERAS_AND_HOSTS
async def test_calls_of_the_tools_of_every_source_pass_the_hooks(mode: str, host: str, tmp_path: Path) -> None:
    async with connect(build_bridge(tmp_path, host=host), mode=mode) as client:
        for name in TOOL_NAMES:

            async def say(word: str, name: str = name) -> Any:
                return await client.call_tool(name, {"word": word})

            assert (await say("plain")).structured_content == {"word": "plain"}, name
            assert get_code(await say("forbidden")) == "denied"
            assert (await say("alias")).structured_content == {"word": "real"}
            assert (await say("secret")).structured_content == {"word": "***"}
            assert "secret" not in str(await say("secret"))
            result = await say("noted")
            assert result.structured_content == {"word": "noted"}
            assert "Words matter." in get_texts(result)
            assert get_code(await say("crash")) == "denied"


@ERAS_AND_HOSTS
async def test_the_user_is_asked_about_the_tools_of_every_source(mode: str, host: str, tmp_path: Path) -> None:
    for choice, code in (("Allow once", None), ("Deny", "approval_declined")):
        user = ScriptedUser(choice)
        async with connect(build_bridge(tmp_path, host=host), mode=mode, elicitation_callback=user) as client:
            for name in TOOL_NAMES:
                assert get_code(await client.call_tool(name, {"word": "asked"})) == code
        steps = ["of_registry?"] if choice == "Allow once" else []
        assert user.prompts == ["of_chain?", *steps, *(f"{name}?" for name in TOOL_NAMES[1:])]


async def test_invalid_arguments_of_a_hook_do_not_reach_a_tool(mode: str, host: str, tmp_path: Path) -> None:
    async with connect(build_bridge(tmp_path, host=host), mode=mode) as client:
        for name in ("of_file", "of_worker", "of_module"):
            assert get_code(await client.call_tool(name, {"word": "spoilt"})) == "invalid_arguments"


async def test_nested_calls_of_a_worker_pass_the_hooks(mode: str, host: str, tmp_path: Path) -> None:
    async with connect(build_bridge(tmp_path, host=host), mode=mode) as client:
        for name in ("of_file_calls", "of_worker_calls"):
            assert get_texts(await client.call_tool(name, {"word": "alias"})) == ["{'word': 'real'}"]
            assert get_code(await client.call_tool(name, {"word": "forbidden"})) == "denied"


async def test_resources_and_prompts_do_not_pass_the_hooks_of_tools(mode: str, host: str, tmp_path: Path) -> None:
    async with connect(build_bridge(tmp_path, host=host), mode=mode) as client:
        assert (await client.read_resource("note://one")).contents[0].text == "a secret note"
        assert "a secret greeting" in str(await client.get_prompt("greeting", {}))


@ERAS_AND_HOSTS
async def test_hooks_apply_to_a_source_with_some_tools_in_workers(mode: str, host: str, tmp_path: Path) -> None:
    apart = {"tools": ["of_module"], "workers": 1}
    async with connect(build_bridge(tmp_path, host=host, isolation=apart), mode=mode) as client:
        for name in ("of_file", "of_module"):
            assert get_code(await client.call_tool(name, {"word": "forbidden"})) == "denied"
            assert (await client.call_tool(name, {"word": "secret"})).structured_content == {"word": "***"}


async def test_nothing_runs_while_a_hook_module_is_missing(mode: str, host: str, tmp_path: Path) -> None:
    (tmp_path / "broken_hooks.py").write_text("raise RuntimeError('not today')\n")
    (tmp_path / "own.py").write_text("from mcp_bridge import tool\n\n@tool\ndef own() -> str:\n    return 'ran'\n")
    (tmp_path / "settings.yaml").write_text(
        "sources:\n"
        f"  - {{type: amplifier, host: {host}, plan: {{hooks: [{{module: guard, source: broken_hooks.py}}]}}}}\n"
        "  - {type: python, path: own.py}\n"
    )
    bridge = build_from_settings(load(tmp_path / "settings.yaml", {}))
    async with connect(bridge, mode=mode) as client:
        answer = await client.call_tool("own", {})
        assert get_code(answer) == "denied"
        assert "the hooks of 'guard' are not in place" in str(get_texts(answer))
        assert "not today" not in str(answer)


async def test_a_plan_without_hooks_that_mounts_nothing_denies_no_other_tool(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("from mcp_bridge import tool\n\n@tool\ndef own() -> str:\n    return 'ran'\n")
    (tmp_path / "settings.yaml").write_text(
        "sources:\n"
        "  - {type: amplifier, plan: {tools: [{module: nowhere}]}}\n"
        "  - {type: amplifier, name: git, plan: {tools: [{module: far, source: 'git+https://example.org/x'}]}}\n"
        "  - {type: python, path: own.py}\n"
    )
    bridge = build_from_settings(load(tmp_path / "settings.yaml", {}))
    async with connect(bridge) as client:
        assert get_texts(await client.call_tool("own", {})) == ["ran"]
    assert "nowhere" in str(bridge.problems["amplifier"])
    assert "far" in str(bridge.problems["git"])


BEFORE = """
from {package} import HookResult

async def before(event, data):
    {does}

async def mount(coordinator, config):
    coordinator.hooks.register("tool:pre", before)
"""
ASKS = "return HookResult(action='ask_user', approval_prompt=data['tool_input']['word'])"
CHANGES = "return HookResult(action='modify', data={**data, 'tool_input': {'word': %r}})"
ASKS_ABOUT_MORE = "return HookResult(action='ask_user', data=data, approval_prompt='again?')"


@EVERY_ERA
@pytest.mark.parametrize(
    ("does", "code", "questions"),
    [
        (CHANGES % "other", "denied", ["word"]),
        (CHANGES % "word", None, ["word"]),
        (ASKS_ABOUT_MORE, None, ["word", "again?"]),
    ],
)
async def test_hooks_of_another_source_cannot_change_an_approved_call(
    mode: str, host: str, does: str, code: str | None, questions: list[str], tmp_path: Path
) -> None:
    package = "amplifier_core" if host == "core" else "mcp_bridge.amplifier"
    (tmp_path / "own.py").write_text(TOOLS.format(name="own"))
    for name, what in (("asks_first", ASKS), ("comes_later", does)):
        (tmp_path / f"{name}.py").write_text(BEFORE.replace("{package}", package).replace("{does}", what))
    sources = [
        {"type": "amplifier", "name": name, "host": host, "plan": {"hooks": [{"module": name, "source": f"{name}.py"}]}}
        for name in ("asks_first", "comes_later")
    ]
    (tmp_path / "bridge.json").write_text(json.dumps({"sources": [*sources, {"type": "python", "path": "own.py"}]}))
    user = ScriptedUser("Allow once")
    bridge = build_from_settings(load(tmp_path / "bridge.json", {}))
    async with connect(bridge, mode=mode, elicitation_callback=user) as client:
        answer = await client.call_tool("own", {"word": "word"})
    assert (get_code(answer), user.prompts) == (code, questions)
    assert code is None or "after the user approved them" in get_texts(answer)[0]
