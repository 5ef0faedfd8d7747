"""The source: names and schemas of tools, changes of tools, hooks over other sources, settings."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp.client import Client

from mcp_bridge._app.factory import build_from_settings
from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._integrations.amplifier.source.resolver import Resolver
from mcp_bridge._settings import load
from mcp_bridge.amplifier import FileSource, ModuleNotFoundError
from mcp_bridge.amplifier.testing import MockTool
from mcp_bridge.testing import connect
from tests.kits.amplifier.amplifier_modules import MODULE, write_files
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS, ServedPlan
from tests.kits.constants import TIMEOUT

pytestmark = pytest.mark.usefixtures("forgotten", "host")

NAMES = """
class Tool:
    description = "A tool."

    def __init__(self, name, **more):
        self.name = name
        vars(self).update(more)

    async def execute(self, input):
        return ToolResult(output=input)


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def mount(coordinator, config):
    await coordinator.mount("tools", Tool("property", input_schema=SCHEMA), name="other_key")
    await coordinator.mount("tools", Tool("method", get_schema=lambda: SCHEMA))
    await coordinator.mount("tools", Tool("open"))
    await coordinator.mount("tools", Tool("none", input_schema=None))
    await coordinator.mount("tools", Tool("odd", input_schema="text"))
    coordinator.mount_points["tools"]["direct"] = Tool("direct")
    coordinator.mount_points["tools"]["nameless"] = Tool("")
"""
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def list_schemas(client: Client) -> dict[str, Any]:
    """Return the schemas of the listed tools by their names."""
    tools = (await client.list_tools(cache_mode="refresh")).tools
    return {tool.name: tool.input_schema for tool in tools}


@BOTH_HOSTS
async def test_clients_see_the_names_and_schemas_of_tools(tmp_path: Path) -> None:
    async with ServedPlan(tmp_path, {"names": NAMES}).connect() as client:
        tools = await list_schemas(client)
        assert sorted(tools) == ["direct", "method", "nameless", "none", "odd", "open", "property"]
        for name in ("property", "method"):
            assert tools[name]["required"] == ["n"]
            assert (await client.call_tool(name, {"n": "x"})).is_error
            assert (await client.call_tool(name, {"n": 1})).structured_content == {"n": 1}
        for name in ("none", "odd", "open", "direct", "nameless"):
            assert (await client.call_tool(name, {"any": 1})).structured_content == {"any": 1}


async def test_two_keys_with_tools_of_one_name_are_a_problem_and_the_first_is_published(tmp_path: Path) -> None:
    modules = {
        name: f"def mount(c, d): c.mount('tools', MockTool('same', '{name}'), name='{name}')" for name in ("one", "two")
    }
    server = ServedPlan(tmp_path, modules)
    async with server.connect() as client:
        assert list(await list_schemas(client)) == ["same"]
        assert (await client.call_tool("same", {})).content[0].text == "one"
    assert server.problems == [
        "the tools mounted as 'one' and 'two' are both named 'same'. "
        "Rename one, or leave one out; the first is published"
    ]


async def test_a_tool_that_cannot_be_read_is_a_problem_and_the_others_are_published(tmp_path: Path) -> None:
    odd = """
class Odd:
    description = "Odd."
    def __init__(self, error): self.error = error
    def __getattr__(self, name):
        if name == "input_schema": raise self.error
        raise AttributeError(name)
    async def execute(self, input): ...
def mount(c, d):
    for at, error in enumerate((ValueError("why"), SystemExit(3))):
        c.mount("tools", Odd(error), name=f"odd{at}")
    c.mount("tools", MockTool("good"))
"""
    server = ServedPlan(tmp_path, {"odd": odd})
    async with server.connect() as client:
        assert list(await list_schemas(client)) == ["good"]
    assert server.problems == [
        "tool 'odd0' cannot be read: ValueError: why",
        "tool 'odd1' cannot be read: SystemExit: 3",
    ]


COMES = """
async def mount(coordinator, config):
    class Grows:
        name, description = "grow", "Mounts a tool."

        def execute(self, input):  # in a thread
            coordinator.mount("tools", MockTool("grown"))

    class Shrinks:
        name, description = "shrink", "Takes it away."

        async def execute(self, input):
            del coordinator.mount_points["tools"]["grown"]

    coordinator.mount("tools", Grows())
    coordinator.mount("tools", Shrinks())
"""


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@BOTH_HOSTS
async def test_clients_are_notified_when_tools_are_mounted_and_unmounted(mode: str, tmp_path: Path) -> None:
    send, notifications = anyio.create_memory_object_stream[str](100)

    async def record_notification(message: Any) -> None:
        if "list_changed" in str(getattr(message, "method", "")):
            await send.send(message.method)

    async def changed(client: Client, tool: str) -> list[str]:
        await client.call_tool(tool, {})
        await notifications.receive()
        return sorted(await list_schemas(client))

    with anyio.fail_after(TIMEOUT):
        async with (
            ServedPlan(tmp_path, {"comes": COMES}).connect(mode=mode, message_handler=record_notification) as client,
            send,
            notifications,
        ):
            if mode == "legacy":
                assert await changed(client, "grow") == ["grow", "grown", "shrink"]
                assert await changed(client, "shrink") == ["grow", "shrink"]
                return
            async with client.listen(tools_list_changed=True) as changes:
                await client.call_tool("grow", {})
                await anext(aiter(changes))
                assert sorted(await list_schemas(client)) == ["grow", "grown", "shrink"]


@BOTH_HOSTS
async def test_a_change_after_the_end_has_no_effect(tmp_path: Path) -> None:
    server = ServedPlan(tmp_path, {"mine": "def mount(c, d): return MockTool('t')"})
    async with server.run_bridge():
        assert server.problems == []
    server.coordinator.mount("tools", MockTool("late"))


async def test_hooks_apply_to_the_calls_of_every_source(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "plain.py": "from mcp_bridge import tool\n\n@tool\ndef add(a: int, b: int) -> int:\n    return a + b\n",
            "hook.py": """
            from mcp_bridge.amplifier import HookResult

            async def mount(c, config):
                def decide(event, data):
                    if data["tool_input"].get("a") == config["forbidden"]:
                        return HookResult(action="deny", reason="not that one")
                    return HookResult(action="modify", data={"tool_input": {**data["tool_input"], "b": 40}})

                return c.hooks.register("tool:pre", decide)
            """,
            "s.yaml": """
            sources:
              - {type: python, path: plain.py}
              - type: amplifier
                plan: {hooks: [{module: hook, source: hook.py, config: {forbidden: 13}}]}
            """,
        },
    )
    async with connect(build_from_settings(load(tmp_path / "s.yaml", {}))) as client:
        assert (await client.call_tool("add", {"a": 2, "b": 2})).content[0].text == "42"
        denial = await client.call_tool("add", {"a": 13, "b": 2})
        assert denial.is_error
        assert "not that one" in denial.content[0].text


async def test_modules_are_found_by_path_by_file_url_and_next_to_the_settings(tmp_path: Path) -> None:
    names = ["by_path", "by_url", "beside", "home"]
    for name in names:
        write_files(tmp_path, {f"{name}.py": MODULE.replace('"here"', f'"{name}"')})
    url = f"{tmp_path.as_uri()}/by_url.py"
    plan = f"""
    tools:
      - {{module: by_path, source: ./by_path.py}}
      - {{module: by_url, source: "{url}"}}
      - beside
      - {{module: home, source: "{tmp_path}/home.py"}}
    """
    write_files(tmp_path, {"plan.yaml": plan})
    bridge = build_from_settings(load(tmp_path / "plan.yaml", {}))
    async with connect(bridge) as client:
        assert sorted(await list_schemas(client)) == sorted(names)
    assert bridge.problems == {"amplifier": []}


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("git+https://host/x@main", r"is not allowed\. .* write beside 'plan'"),
        ("gone.py", "no such file or folder"),
        ("package:no-such-package", "the package 'no-such-package' is not installed"),
        ("7", "no such file or folder"),
        (7, "the source of 'x' is the number 7. Write a path, file://PATH, package:NAME"),
        ("https://me:pw@host/x", r"the source of 'x' is text 'https://\*\*\*@host/x'. Write a path, file://PATH"),
    ],
)
async def test_a_source_without_a_module_is_an_error_with_the_reason(
    source: str | int, problem: str, tmp_path: Path
) -> None:
    write_files(tmp_path, {"plan.yaml": f"tools: [{{module: x, source: {source!r}}}]"})
    bridge = build_from_settings(load(tmp_path / "plan.yaml", {}))
    with pytest.raises(SourceError, match=problem):
        async with bridge.run_sources():
            await bridge.wait_until_started()


def test_a_source_may_be_an_object_that_resolves_itself(tmp_path: Path) -> None:
    resolver, source = Resolver(tmp_path), SimpleNamespace(resolve=lambda: tmp_path)
    assert resolver.resolve("x", source) is resolver.resolve("x", None, source) is source
    assert resolver.resolve("x", "a.py") == FileSource(tmp_path / "a.py")
    with pytest.raises(ModuleNotFoundError, match="no source for 'x'"):
        resolver.resolve("x")


def test_the_settings_limit_the_time_of_a_hook(tmp_path: Path) -> None:
    write_files(tmp_path, {"s.yaml": "sources:\n  - {type: amplifier, hook_timeout: soon, plan: {}}"})
    with pytest.raises(ConfigError, match=r"s.yaml:2: sources\[0\].hook_timeout: "):
        build_from_settings(load(tmp_path / "s.yaml", {}))
    write_files(tmp_path, {"t.yaml": "sources:\n  - {type: amplifier, hook_timeout: 2s, plan: {}}"})
    build_from_settings(load(tmp_path / "t.yaml", {}))
