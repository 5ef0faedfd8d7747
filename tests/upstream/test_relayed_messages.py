"""The bridge passes on everything of a server, over every transport and between both eras."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT
from tests.kits.loops import BOTH_LOOPS
from tests.kits.upstream.everything_kit import (
    ASKING_WAYS,
    ERAS,
    WAYS,
    Host,
    Way,
    call_structured,
    connect_to,
    wait_for_names,
)
from tests.kits.upstream.sdk_server import BLOCKS, ICON, NOTED, PIXEL, TOOLS
from tests.kits.upstream.upstream_kit import Json, build_source, wait_for_state, wait_for_tool
from tests.kits.waiting import wait_until_true

pytestmark = pytest.mark.anyio
PROMPT = types.PromptReference(type="ref/prompt", name="greet")
PAGE = types.ResourceTemplateReference(type="ref/resource", uri="page://{id}")


@pytest.fixture(scope="module", params=WAYS, ids=str)
def entry(request: pytest.FixtureRequest) -> Iterator[Json]:
    """Return the entry of a server, for each way to it."""
    with request.param.run_server() as running:
        yield running


@pytest.fixture(scope="module", params=ASKING_WAYS, ids=str)
def asking_entry(request: pytest.FixtureRequest) -> Iterator[Json]:
    """Yield the entry of a server with requests and notifications."""
    with request.param.run_server() as running:
        yield running


@pytest.fixture(params=ERAS)
def mode(request: pytest.FixtureRequest) -> Any:
    """Return the era of the client."""
    return request.param


def dump(model: Any) -> Json:
    """Return a model as it is on the wire."""
    data: Json = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    return data


async def test_lists_keep_every_field(entry: Json, mode: str, tmp_path: Path) -> None:
    async with connect_to(entry, tmp_path, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        resources = {str(item.uri): item for item in (await client.list_resources()).resources}
        (page,) = (await client.list_resource_templates()).resource_templates
        (greet,) = (await client.list_prompts()).prompts
    assert set(tools) == {tool["name"] for tool in TOOLS} | {"renamed_later"}
    assert dump(tools["show_content"]) == TOOLS[0]
    assert tools["measure"].output_schema == TOOLS[1]["outputSchema"]
    note = resources.pop("note://one")
    assert [*resources] == ["bridge://status"]
    assert (note.name, note.title, note.size, note.mime_type) == ("one", "One", 8, "text/plain")
    assert dump(note)["annotations"] == NOTED
    assert dump(note)["icons"] == [ICON]
    assert note.meta == {"example.com/resource": 1}
    assert (page.uri_template, page.name) == ("page://{id}", "page")
    assert greet.title == "Greet"
    assert [dump(item) for item in greet.arguments or ()] == [
        {"name": "who", "title": "Who", "description": "Whom to greet.", "required": True}
    ]


async def test_results_keep_every_kind_of_content(entry: Json, mode: str, tmp_path: Path) -> None:
    async with connect_to(entry, tmp_path, mode) as client:
        content = await client.call_tool("show_content", {})
        measurement = await client.call_tool("measure", {})
        failure = await client.call_tool("fail", {})
        long = await client.call_tool("write_long", {})
    assert dump(content)["content"] == BLOCKS
    assert measurement.structured_content == {"size": 3, "unit": "m"}
    assert [dump(block) for block in measurement.content] == [{"type": "text", "text": "three"}]
    assert failure.is_error
    assert [dump(block) for block in failure.content] == [{"type": "text", "text": "It went wrong."}, BLOCKS[1]]
    assert isinstance(long.content[0], types.TextContent)
    assert "x" * 1000 in long.content[0].text


async def test_meta_passes_in_both_directions(entry: Json, mode: str, tmp_path: Path) -> None:
    async with connect_to(entry, tmp_path, mode) as client:
        result = await client.call_tool("show_meta", {}, meta={"example.com/trace": "t", "example.com/deep": {"a": 1}})
    assert result.structured_content == {"example.com/trace": "t", "example.com/deep": {"a": 1}}
    assert result.meta is not None
    assert result.meta["example.com/result"] == "yes"


async def test_an_error_response_becomes_a_result_for_the_model(entry: Json, mode: str, tmp_path: Path) -> None:
    async with connect_to(entry, tmp_path, mode) as client:
        result = await client.call_tool("reject", {})
    assert result.is_error
    assert [dump(block)["text"] for block in result.content] == ["The machine is on fire."]


async def test_resources_prompts_and_completions_pass(entry: Json, mode: str, tmp_path: Path) -> None:
    async with connect_to(entry, tmp_path, mode) as client:
        note = await client.read_resource("note://one")
        page = await client.read_resource("page://7")
        with pytest.raises(MCPError, match="not found"):
            await client.read_resource("note://none")
        greeting = await client.get_prompt("greet", {"who": "Bob"})
        names = await client.complete(PROMPT, {"name": "who", "value": "A"}, context_arguments={"tone": "Alex"})
        ids = await client.complete(PAGE, {"name": "id", "value": "1"})
    assert [dump(item) for item in note.contents] == [
        {"uri": "note://one", "mimeType": "text/plain", "text": "the note", "_meta": {"example.com/c": 1}}
    ]
    assert [dump(item) for item in page.contents] == [{"uri": "page://7", "mimeType": "image/png", "blob": PIXEL}]
    assert [dump(item) for item in greeting.messages] == [
        {"role": "user", "content": {"type": "text", "text": "Greet Bob."}},
        {"role": "assistant", "content": BLOCKS[1]},
    ]
    assert names.completion.values == ["Ada", "Alan", "AAlex"]
    assert (ids.completion.values, ids.completion.total, ids.completion.has_more) == (["1da", "1lan"], 250, True)
    assert (note.meta["example.com/read"], greeting.meta["example.com/prompt"]) == (1, 1)


async def test_progress_and_log_messages_reach_the_client_before_the_result(
    asking_entry: Json, mode: str, tmp_path: Path
) -> None:
    host, steps = Host(), []

    async def note_progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total, message))

    async with connect_to(asking_entry, tmp_path, mode, log_level="info", **host.options) as client:
        await client.call_tool("report", {}, progress_callback=note_progress)
        await client.call_tool("log", {})
        await wait_until_true(lambda: len(host.logged) == 2 and len(steps) == 3)
    assert steps == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]
    assert [(item.level, item.data, item.logger) for item in host.logged] == [
        ("info", {"said": "info"}, "work"),
        ("error", {"said": "error"}, "work"),
    ]


async def test_questions_reach_the_user_and_answers_the_server(asking_entry: Json, mode: str, tmp_path: Path) -> None:
    host = Host()
    async with connect_to(asking_entry, tmp_path, mode, **host.options) as client:
        form = await call_structured(client, "ask_form")
        url = await call_structured(client, "ask_url")
        model = await call_structured(client, "ask_model")
        roots = await call_structured(client, "ask_roots")
    assert form == {"answer": {"action": "accept", "content": {"name": "Ada"}}, "state": "sealed"}
    assert url["answer"] == {"action": "accept"}
    assert model["answer"] == {
        "role": "assistant", "content": {"type": "text", "text": "Hello from Ada"}, "model": "m",
        "stopReason": "endTurn",
    }  # fmt: skip
    assert roots["answer"] == {"roots": [{"uri": "file:///Ada", "name": "Ada"}]}
    asked_form, asked_url, asked_model = host.asked
    assert (asked_form.message, asked_url.url) == ("[server] Your name?", "https://example.com/login")
    assert (asked_model.max_tokens, asked_model.system_prompt) == (7, "Be brief.")
    assert [tool.name for tool in asked_model.tools] == ["look"]


async def test_a_question_that_the_client_cannot_answer_is_an_error(
    asking_entry: Json, mode: str, tmp_path: Path
) -> None:
    async with connect_to(asking_entry, tmp_path, mode) as client:
        try:
            result = await client.call_tool("ask_form", {})
        except MCPError as error:
            assert "elicitation" in str(error) + str(error.error.data)  # noqa: PT017 - either era's form
        else:
            assert result.is_error


async def test_a_cancelled_call_is_cancelled_on_the_server(asking_entry: Json, mode: str, tmp_path: Path) -> None:
    label = f"{mode} {tmp_path}"
    async with connect_to(asking_entry, tmp_path, mode) as client:
        with anyio.move_on_after(0.5):
            await client.call_tool("wait", {"label": label})
        await wait_for_names(client, "show_cancelled", lambda names: label in names)


async def test_a_changed_list_is_read_again(asking_entry: Json, mode: str, tmp_path: Path) -> None:
    async with connect_to(asking_entry, tmp_path, mode) as client:
        for name in ("renamed_now", "renamed_later"):
            await client.call_tool("rename", {"name": name})
            await wait_for_tool(client, name)


@BOTH_LOOPS
async def test_handshake_clients_subscribe_through_the_bridge(asking_entry: Json, tmp_path: Path) -> None:
    updates: list[str] = []

    async def receive(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            updates.append(str(message.params.uri))

    async with connect_to(asking_entry, tmp_path, "legacy", message_handler=receive) as client:
        await client.subscribe_resource("note://one")
        await client.subscribe_resource("page://7")
        await client.call_tool("touch", {"uri": "page://7"})
        await wait_until_true(lambda: updates == ["page://7"])
        await client.unsubscribe_resource("page://7")
        await wait_for_names(client, "show_subscribed", lambda names: names == ["note://one"])
        await client.unsubscribe_resource("note://one")
        await wait_for_names(client, "show_subscribed", lambda names: names == [])


@BOTH_LOOPS
async def test_stateless_clients_listen_through_the_bridge(asking_entry: Json, tmp_path: Path) -> None:
    async with connect_to(asking_entry, tmp_path, "2026-07-28") as client:
        async with client.listen(resource_subscriptions=["note://one", "other://server"]) as events:
            await wait_for_names(client, "show_subscribed", lambda names: names == ["note://one"])
            await client.call_tool("touch", {"uri": "note://one"})
            with anyio.fail_after(TIMEOUT):
                assert "note://one" in str(await anext(events))
        await wait_for_names(client, "show_subscribed", lambda names: names == [])


async def test_a_server_that_starts_slowly_gets_no_request_of_another_era(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The server responds after about a second.
    monkeypatch.setattr("mcp_bridge._upstream.session.PROBE_TIMEOUT", 0.01)
    with Way("stdio", "dual").run_server() as slow:
        source = build_source(slow, tmp_path)
        async with connect(Bridge(None, [AttachedSource(source=source)])):
            status = await wait_for_state(source, "ready")
    assert status.failures == 0
