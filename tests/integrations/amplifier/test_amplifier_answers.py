"""The results of modules' tools in every form, as the official client receives them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_bridge._contracts import tool as contracts
from mcp_bridge._contracts.content import Audio, Image, Text
from mcp_bridge._contracts.errors import ToolError
from mcp_bridge._integrations.amplifier.results import from_hook_data, is_second_form, to_hook_data, to_result
from mcp_bridge._integrations.amplifier.source.tool_handler import ToolHandler
from mcp_bridge.amplifier import ToolResult
from tests.kits.amplifier.amplifier_plans import BOTH_HOSTS, ServedPlan
from tests.kits.loops import BOTH_LOOPS

TOOLS = """
import asyncio, datetime, math
from mcp_bridge.amplifier import ToolResult as Either

# amplifier-core 1 has no content blocks.
Rich = ToolResult if "content" in ToolResult.model_fields else Either


class Answers:
    description = "Answers."

    def __init__(self, name, answer):
        self.name, self.answer = name, answer

    async def execute(self, input):
        return self.answer


class Failure(Exception):
    pass


class Sync(Answers):
    def execute(self, input):
        import threading
        return self.answer or threading.get_ident()


class Later(Answers):
    def execute(self, input):
        async def later():
            return ToolResult(output="later")
        return later()


class Raises(Answers):
    async def execute(self, input):
        raise self.answer


class SyncRaises(Answers):
    def execute(self, input):
        raise self.answer


PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lGODlh"}}
FOREIGN = SimpleNamespace(success=False, output={"stdout": "out\\n", "returncode": 3}, error=None, content=None)
ODD = {"b": b"\\xff", "at": datetime.datetime(2026, 1, 2), "set": {1}, "nan": math.nan, "inf": [math.inf]}
ANSWERS = {
    "first": ToolResult(output={"a": 1}),
    "second": SimpleNamespace(tool_call_id="", output="text", is_error=False),
    "second_failed": SimpleNamespace(tool_call_id="7", output="it broke", is_error=True),
    "plain_dict": {"a": 1},
    "like_first": {"success": False, "output": {"kept": True}, "error": {"message": "why"}},
    "like_second": {"tool_call_id": "x", "output": "out", "is_error": True},
    "success_alone": {"success": True},
    "text": "hello",
    "nothing": None,
    "nothing_said": ToolResult(),
    "foreign_failed": FOREIGN,
    "failed": ToolResult(success=False, output={"stdout": "out", "returncode": 3}, error={"message": "exit 3"}),
    "failed_quietly": ToolResult(success=False, error={"message": ""}),
    "failed_once": ToolResult(success=False, error={"message": "gone"}),
    "blocks": Rich(output="said", content=[{"type": "text", "text": "seen"}, PIXEL]),
    "foreign_blocks": SimpleNamespace(success=True, output="", error=None, content=[
        SimpleNamespace(type="text", text="seen"),
        SimpleNamespace(type="image", source=SimpleNamespace(media_type="image/gif", data="R0lGODlh")),
    ]),
    "odd_blocks": SimpleNamespace(
        success=True, output=None, content=[{"type": "sound", "n": 1}, 5, {**PIXEL, "source": {"data": "%"}}]
    ),
    "odd": ToolResult(output=ODD),
    "odd_failed": ToolResult(success=False, output=ODD, error={"message": "broke"}),
    "odd_plain": ODD,
}


async def mount(coordinator, config):
    for name, answer in ANSWERS.items():
        await coordinator.mount("tools", Answers(name, answer))
    coordinator.mount("tools", Sync("sync", None))
    coordinator.mount("tools", Later("later", None))
    coordinator.mount("tools", Raises("raises", Failure("s3cret")))
    coordinator.mount("tools", Raises("ends", SystemExit("s3cret")))
    coordinator.mount("tools", SyncRaises("sync_raises", Failure("s3cret")))
"""

pytestmark = pytest.mark.usefixtures("forgotten", "host")

SEEN: dict[str, tuple[bool, list[str], Any]] = {
    "first": (False, ['{"a":1}'], {"a": 1}),
    "second": (False, ["text"], None),
    "second_failed": (True, ["it broke"], None),
    "plain_dict": (False, ['{"a":1}'], {"a": 1}),
    "like_first": (True, ["why", '{"kept":true}'], None),
    "like_second": (True, ["out"], None),
    "success_alone": (False, ['{"success":true}'], {"success": True}),
    "text": (False, ["hello"], None),
    "nothing": (False, [], None),
    "nothing_said": (False, [], None),
    "foreign_failed": (True, ['{"stdout":"out\\n","returncode":3}'], None),
    "failed": (True, ["exit 3", '{"stdout":"out","returncode":3}'], None),
    "failed_quietly": (True, ["The tool failed and did not say why."], None),
    "failed_once": (True, ["gone"], None),
    "blocks": (False, ["seen", "image/gif"], None),
    "foreign_blocks": (False, ["seen", "image/gif"], None),
    "odd_blocks": (False, ['{"type": "sound", "n": 1}', "5", "[unreadable image]"], None),
    "later": (False, ["later"], None),
}
ODD = {"b": "/w==", "at": "2026-01-02T00:00:00", "set": [1], "nan": None, "inf": [None]}


@BOTH_HOSTS
async def test_clients_get_the_results_of_tools_in_every_form(tmp_path: Path) -> None:
    server = ServedPlan(tmp_path, {"answers_all": TOOLS})
    async with server.connect() as client:
        assert server.problems == []
        for name, (is_error, texts, structured) in SEEN.items():
            result = await client.call_tool(name, {})
            contents = [getattr(block, "text", None) or getattr(block, "mime_type", None) for block in result.content]
            assert (name, bool(result.is_error), contents) == (name, is_error, texts)
            assert (name, result.structured_content) == (name, structured)


async def test_values_without_a_form_in_json_are_converted(tmp_path: Path) -> None:
    async with ServedPlan(tmp_path, {"answers_odd": TOOLS}).connect() as client:
        for name in ("odd", "odd_plain"):
            assert (await client.call_tool(name, {})).structured_content == ODD
        failure = await client.call_tool("odd_failed", {})
        assert failure.is_error
        assert failure.content[0].text == "broke"
        assert '"at":"2026-01-02T00:00:00"' in failure.content[1].text


@BOTH_LOOPS
async def test_a_synchronous_execute_runs_in_a_thread_and_blocks_no_other_call(tmp_path: Path) -> None:
    async with ServedPlan(tmp_path, {"answers_sync": TOOLS}).connect() as client:
        result = await client.call_tool("sync", {})
        assert int(result.content[0].text) != threading.get_ident()


def test_an_execute_of_another_language_is_called_on_the_event_loop() -> None:
    tool = SimpleNamespace(name="get", description="Compiled.", execute={}.get)
    python = SimpleNamespace(name="len", description="Python.", execute=lambda input: len(input))
    server: Any = None
    assert ToolHandler("get", tool, server).build_entry().handler.__name__ == "_run_async"
    assert ToolHandler("len", python, server).build_entry().handler.__name__ == "_run_in_thread"


async def test_for_an_exception_of_a_tool_a_client_gets_only_a_reference(tmp_path: Path) -> None:
    async with ServedPlan(tmp_path, {"answers_raising": TOOLS}).connect() as client:
        for name in ("raises", "ends", "sync_raises"):
            result = await client.call_tool(name, {})
            assert result.is_error
            assert "reference" in result.content[0].text
            assert "s3cret" not in result.model_dump_json()
        assert (await client.call_tool("text", {})).content[0].text == "hello"


IDS = """
from mcp_bridge.amplifier import ToolResult as Either


class Sees:
    description = "Says what it was given."

    def __init__(self, name, schema=None, answer=lambda seen: {"seen": seen}):
        self.name, self.answer = name, answer
        if schema is not None:
            self.input_schema = schema

    async def execute(self, input):
        return self.answer(dict(input))


PLAIN = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
ASKS = {"type": "object", "properties": {"_tool_call_id": {"type": "string"}}}
SECOND = lambda seen: SimpleNamespace(tool_call_id=seen.get("_tool_call_id", ""), output=seen, is_error=False)
OURS = lambda seen: Either(tool_call_id=seen.get("_tool_call_id", ""), output=seen, is_error=False)


async def mount(coordinator, config):
    for tool in (Sees("plain", PLAIN), Sees("open"), Sees("asks", ASKS), Sees("second", PLAIN, SECOND),
                 Sees("ours", PLAIN, OURS), Sees("first", PLAIN, lambda seen: ToolResult(output=seen)),
                 Sees("list", {"properties": []})):
        await coordinator.mount("tools", tool)
"""


@BOTH_HOSTS
async def test_only_tools_that_ask_for_the_id_of_the_call_or_return_it_get_it(tmp_path: Path) -> None:
    server = ServedPlan(tmp_path, {"answers_ids": IDS})
    async with server.connect() as client:

        async def has_id(name: str, **arguments: Any) -> bool:
            content = (await client.call_tool(name, arguments)).structured_content
            return bool(content.get("seen", content).get("_tool_call_id"))

        for _ in range(2):
            assert not await has_id("plain", a=1)
            assert not await has_id("open", a=1)
            assert not await has_id("first")
            assert await has_id("asks")
        for name in ("second", "ours"):
            assert not await has_id(name)
            assert await has_id(name, a=1)
        server.coordinator.mount("tools", SimpleNamespace(name="new", description="", execute=lambda input: "new"))
        while "new" not in [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]:
            pass
        assert await has_id("second")


@dataclass
class Theirs:
    """A result of the first form in another package's class, with the second form's id."""

    success: bool = True
    output: Any = None
    tool_call_id: str = ""


@pytest.mark.parametrize(
    ("answer", "second"),
    [
        (ToolResult(output=1), False),
        (ToolResult(is_error=True), False),
        (ToolResult(tool_call_id="", output=1), True),
        (SimpleNamespace(tool_call_id="", output=1, is_error=False), True),
        ({"output": 1, "is_error": True}, True),
        ({"output": 1, "success": True}, False),
        (Theirs(), False),
        (Theirs(tool_call_id="7"), True),
        ({"a": 1}, False),
        ("text", False),
        (None, False),
    ],
)
def test_the_second_form_is_recognized_by_its_id(answer: Any, second: bool) -> None:
    assert is_second_form(answer) is second


def test_an_empty_id_is_replaced_and_any_other_kept() -> None:
    for empty in (ToolResult(), {"success": True, "output": 1}, Theirs(), contracts.ToolResult(output=1)):
        assert to_result(empty, "call").tool_call_id == "call"
    for full in (ToolResult(tool_call_id="own"), Theirs(tool_call_id="own"), contracts.ToolResult(tool_call_id="own")):
        assert to_result(full, "call").tool_call_id == "own"


def test_blocks_in_the_form_of_mcp_are_content_too() -> None:
    audio = {"type": "audio", "data": "eA==", "mimeType": "audio/wav"}
    assert to_result({"success": True, "content": [audio]}).content == [Audio(b"x", "audio/wav")]


def test_a_contradictory_result_is_a_failure() -> None:
    assert to_result({"success": True, "is_error": True, "output": 1}).is_error
    assert to_result(SimpleNamespace(success=False, is_error=False, output=1)).is_error


def test_hooks_see_the_first_form_with_the_error_and_every_block() -> None:
    assert to_hook_data(contracts.ToolResult(output=1)) == {"success": True, "output": 1, "error": None}
    failure = contracts.ToolResult(success=False, error="no", output="kept")
    assert to_hook_data(failure) == {"success": False, "output": "kept", "error": {"message": "no"}}
    mapping = contracts.ToolResult(success=False, error={"message": "no", "type": "X"})
    assert to_hook_data(mapping)["error"] == {"message": "no", "type": "X"}
    blocks = contracts.ToolResult(content=[Text("a"), Image(b"GIF", "image/gif"), Audio(b"x", "audio/wav")])
    assert to_hook_data(blocks)["content"] == [
        {"type": "text", "text": "a"},
        {"type": "image", "data": "R0lG", "mimeType": "image/gif"},
        {"type": "audio", "data": "eA==", "mimeType": "audio/wav"},
    ]


BEFORE = contracts.ToolResult(
    output="s3cret", content=[Text("s3cret"), Audio(b"x", "audio/wav")], tool_call_id="7", meta={"m": 1}
)


def apply_hook(changed: Any, before: contracts.ToolResult = BEFORE) -> contracts.ToolResult:
    return from_hook_data(changed, before, to_hook_data(before))


def test_a_result_that_comes_back_whole_keeps_what_is_unchanged() -> None:
    values = to_hook_data(BEFORE)
    assert apply_hook(values) == BEFORE
    blocks = [{"type": "text", "text": "***"}, *values["content"][1:]]
    result = apply_hook({**values, "output": "***", "content": blocks})
    assert (result.output, result.content) == ("***", [Text("***"), BEFORE.content[1]])  # type: ignore[index]
    assert (result.success, result.tool_call_id, result.meta) == (True, "7", {"m": 1})


def test_a_hook_may_return_a_single_block_in_either_form() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lG"}}
    for content in (image, [image], {"type": "image", "data": "R0lG", "mimeType": "image/gif"}):
        assert apply_hook({"success": True, "content": content}).content == [Image(b"GIF", "image/gif")]


def test_content_is_dropped_when_the_output_changes_because_it_may_repeat_what_a_hook_has_redacted() -> None:
    for changed in ("***", {"success": True, "output": "***"}, {"success": True, "output": "***", "content": None}):
        result = apply_hook(changed)
        assert (result.output, result.content) == ("***", None)
    assert apply_hook({"success": True, "output": "s3cret", "error": None}).content == BEFORE.content
    assert apply_hook({**to_hook_data(BEFORE), "output": "***"}).content is None


def test_a_hook_may_change_whether_a_result_is_a_failure() -> None:
    failure = contracts.ToolResult(success=False, output="out", error="no", code="own")
    assert apply_hook({"n": 1}, failure) == contracts.ToolResult(success=False, output={"n": 1}, error="no", code="own")
    assert apply_hook("other", failure) == contracts.ToolResult(success=False, error="other", code="own")
    result = apply_hook({"success": True, "output": "out", "error": {"message": "no"}}, failure)
    assert (result.success, result.error, result.code) == (True, None, None)
    broken = apply_hook(ToolResult(success=False, output="x", error={"message": "redacted"}))
    assert (broken.is_error, broken.error_text) == (True, "redacted")


async def test_an_error_that_a_tool_raises_on_purpose_reaches_the_client(tmp_path: Path) -> None:
    text = "from mcp_bridge._contracts.errors import ToolError\n" + TOOLS.replace(
        'Failure("s3cret")', 'ToolError("no")'
    )
    assert ToolError("no").text == "no"
    async with ServedPlan(tmp_path, {"error_answers": text}).connect() as client:
        assert (await client.call_tool("raises", {})).content[0].text == "no"
