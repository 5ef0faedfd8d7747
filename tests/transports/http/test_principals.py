"""Principals by named tokens: no one has access to sessions, calls or results of another."""

from __future__ import annotations

import contextlib
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import anyio
import httpx2
import pytest

from mcp_bridge import CallContext, ToolRegistry
from mcp_bridge._app.bridge import Bridge
from mcp_bridge._contracts.identity import Identity
from mcp_bridge._storage.stores.memory import MemoryStore
from mcp_bridge._transports.http.access import Access
from mcp_bridge._transports.http.app import BridgeApp, HttpOptions
from mcp_bridge._transports.http.bearer import Authenticator, StaticTokens
from tests.client.http_client import HttpSession, open_session, read_events
from tests.kits.approvals.approvals_kit import ALWAYS, build_host
from tests.kits.constants import ENVELOPE, HTTP_HEADERS, TIMEOUT
from tests.kits.http.http_hosting import (
    HTTP_WAYS,
    Gate,
    HttpWay,
    build_registry,
    make_entry,
    make_initialize,
    make_stateless_request,
    serve_http,
)
from tests.kits.http.http_streams import StepTool, resume
from tests.kits.waiting import wait_for_event

TOKENS = {"ann": "token-of-ann", "eve": "token-of-eve"}
ASKING = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}
NAME: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def describe(data: Any, ctx: CallContext) -> list[Any]:
    return [ctx.principal, ctx.session, ctx.client]


async def ask(data: Any, ctx: CallContext) -> str:
    return str((await ctx.ask("Who?", NAME)).data)


def make_access(tokens: StaticTokens) -> Access:
    return Access.for_host("127.0.0.1", authenticator=Authenticator(tokens))


def connect_as(name: str, base: str) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {TOKENS[name]}"}
    return httpx2.AsyncClient(base_url=base, timeout=TIMEOUT, headers=headers)


@contextlib.asynccontextmanager
async def connect_two(
    registry: ToolRegistry, tokens: StaticTokens | None = None
) -> AsyncIterator[tuple[httpx2.AsyncClient, httpx2.AsyncClient]]:
    """Yield HTTP clients of two principals at a server on a socket."""
    access = make_access(tokens or StaticTokens(named=TOKENS))
    async with (
        serve_http(registry, access=access) as (base, _),
        connect_as("ann", base) as ann,
        connect_as("eve", base) as eve,
    ):
        yield ann, eve


@pytest.fixture
async def clients() -> AsyncIterator[tuple[httpx2.AsyncClient, httpx2.AsyncClient]]:
    """Yield HTTP clients of two principals at one server."""
    registry = build_registry(
        make_entry("describe", describe),
        make_entry("ask", ask),
        make_entry("long", lambda data: "x" * 2000),
        make_entry("there"),
    )
    app = BridgeApp(
        (bridge := Bridge(registry, identity=Identity(result=1000))).endpoint,
        HttpOptions(access=make_access(StaticTokens(named=TOKENS))),
        around=bridge.run_sources,
    )
    transport = httpx2.ASGITransport(app)
    async with (
        app.lifespan(),
        httpx2.AsyncClient(
            transport=transport, base_url="http://localhost", headers={"Authorization": "Bearer token-of-ann"}
        ) as ann,
        httpx2.AsyncClient(
            transport=transport, base_url="http://localhost", headers={"Authorization": "Bearer token-of-eve"}
        ) as eve,
    ):
        yield ann, eve


async def call(http: httpx2.AsyncClient, tool: str, meta: dict[str, Any] | None = None, **params: Any) -> Any:
    """Call a tool in the stateless era, and return the response."""
    request = make_stateless_request("tools/call", {"name": tool, "arguments": {}, **params})
    request["json"]["params"]["_meta"] = {**ENVELOPE, **(meta or {})}
    return (await http.post("/mcp", **request)).json()


@pytest.mark.parametrize("way", HTTP_WAYS, ids=lambda way: f"{way.transport}-{way.mode}")
async def test_a_named_token_makes_its_name_the_principal(way: HttpWay) -> None:
    access = make_access(StaticTokens("unnamed-token", TOKENS))
    async with serve_http(build_registry(make_entry("describe", describe)), access=access) as (base, _):
        for token, principal in (("token-of-ann", "ann"), ("token-of-eve", "eve"), ("unnamed-token", None)):
            async with way.connect(base, token=token) as client:
                description = cast("Any", (await client.call_tool("describe", {})).content[0]).text
                assert json.loads(description)[0] == principal


async def test_every_token_is_compared_after_a_match_too(
    clients: tuple[httpx2.AsyncClient, httpx2.AsyncClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []
    compare = hmac.compare_digest

    def count(first: Any, other_headers: Any) -> bool:
        compared.append(len(first))
        return compare(first, other_headers)

    monkeypatch.setattr(hmac, "compare_digest", count)
    for token, status in (("token-of-ann", 200), ("token-of-eve", 200), ("x", 401)):
        compared.clear()
        request = make_stateless_request("tools/list", Authorization=f"Bearer {token}")
        assert (await clients[0].post("/mcp", **request)).status_code == status
        assert compared == [32, 32]


async def test_each_principal_has_its_own_quotas_and_sessions(
    clients: tuple[httpx2.AsyncClient, httpx2.AsyncClient],
) -> None:
    meta = {"mcp-bridge/session": "mine"}
    description = [json.loads((await call(http, "describe", meta))["result"]["content"][0]["text"]) for http in clients]
    (ann, ann_session, ann_client), (eve, eve_session, eve_client) = description
    assert (ann, eve) == ("ann", "eve")
    assert ann_session != eve_session
    assert (ann_client, eve_client) == ("principal/ann", "principal/eve")


async def test_a_session_of_another_principal_does_not_exist() -> None:
    async with connect_two(build_registry(make_entry("there"))) as (ann, eve):
        talk = await open_session(ann)
        for method in ("POST", "GET", "DELETE"):
            body = {"jsonrpc": "2.0", "id": 1, "method": "ping"} if method == "POST" else None
            response = await eve.request(method, "/mcp", json=body, headers=talk.headers)
            unknown = {**talk.headers, "Mcp-Session-Id": "0" * 32}
            missing = await eve.request(method, "/mcp", json=body, headers=unknown)
            assert (response.status_code, response.content) == (missing.status_code, missing.content)
            assert response.status_code == 404
        assert await talk.ping() == 200


async def test_an_event_of_another_principal_resumes_nothing() -> None:
    work = StepTool()
    async with connect_two(build_registry(make_entry("work", work))) as (ann, eve):
        mine, other_headers = await open_session(ann), await open_session(eve)
        async with mine.stream_call(1) as stream:
            last = (await anext(read_events(stream))).id
            await wait_for_event(work.begun)
        work.report(1)
        work.finish()
        assert await resume(other_headers, last) == []
        assert await resume(mine, last) == [1, "done"]


async def test_an_sse_stream_of_another_principal_does_not_exist() -> None:
    async with connect_two(build_registry(make_entry("there"))) as (ann, eve), ann.stream("GET", "/sse") as stream:
        lines = stream.aiter_lines()
        address = [await anext(lines), await anext(lines)][1].removeprefix("data: ")
        response = await eve.post(address, json=make_initialize())
        missing = await eve.post(f"/messages?session_id={'0' * 32}", json=make_initialize())
        assert (response.status_code, response.content) == (missing.status_code, missing.content)
        assert response.status_code == 404
        assert (await ann.post(address, json=make_initialize())).status_code == 202


async def test_a_request_state_of_another_principal_is_invalid(
    clients: tuple[httpx2.AsyncClient, httpx2.AsyncClient],
) -> None:
    ann, eve = clients
    questions = (await call(ann, "ask", ASKING))["result"]
    (key,) = questions["inputRequests"]
    answer = {key: {"action": "accept", "content": {"name": "Ann"}}}
    answers = {"requestState": questions["requestState"], "inputResponses": answer}
    response = await call(eve, "ask", ASKING, **answers)
    invented = await call(eve, "ask", ASKING, **{**answers, "requestState": "x" + questions["requestState"][1:]})
    assert response["error"] == invented["error"]
    assert "Ann" in (await call(ann, "ask", ASKING, **answers))["result"]["content"][0]["text"]


async def read(http: httpx2.AsyncClient, uri: str) -> Any:
    request = make_stateless_request("resources/read", {"uri": uri}, **{"Mcp-Name": uri})
    return (await http.post("/mcp", **request)).json()


async def test_the_stored_result_of_another_principal_does_not_exist(
    clients: tuple[httpx2.AsyncClient, httpx2.AsyncClient],
) -> None:
    ann, eve = clients
    result = (await call(ann, "long"))["result"]
    (uri,) = [block["uri"] for block in result["content"] if block["type"] == "resource_link"]
    response = await read(eve, uri)
    assert response["error"]["code"] == -32602
    assert response["error"]["message"] == f"Resource not found: {uri}"
    assert (await read(ann, uri))["result"]["contents"][0]["text"] == "x" * 1000


async def test_an_approval_of_another_principal_allows_nothing() -> None:
    server = build_host(MemoryStore())
    async with connect_two(server.registry) as (ann, eve):
        added = {"arguments": {"n": 1}}
        questions = (await call(ann, "add", ASKING, **added))["result"]
        (key,) = questions["inputRequests"]
        answer = {key: {"action": "accept", "content": {"value": ALWAYS}}}
        answers = {**added, "requestState": questions["requestState"], "inputResponses": answer}
        assert "isError" not in (await call(ann, "add", ASKING, **answers))["result"]
        assert (await call(ann, "add", ASKING, **added))["result"]["resultType"] == "complete"
        assert (await call(eve, "add", ASKING, **added))["result"]["resultType"] == "input_required"


async def test_a_removed_name_loses_its_sessions_calls_and_streams_and_others_keep_theirs() -> None:
    tokens, gate = StaticTokens(named=TOKENS), Gate()
    async with (
        connect_two(build_registry(make_entry("gate", gate)), tokens) as (ann, eve),
        anyio.create_task_group() as tasks,
    ):
        mine, other_headers = await open_session(ann), await open_session(eve)
        end = anyio.Event()

        async def hold(talk: HttpSession) -> None:
            async with talk.stream_call(1, "gate") as stream:
                assert [event.data for event in [each async for each in read_events(stream)] if event.data] == []
            end.set()

        tasks.start_soon(hold, other_headers)
        await wait_for_event(gate.begun)
        async with eve.stream("GET", "/sse") as sse:
            tokens.replace_named({"ann": TOKENS["ann"]})
            await wait_for_event(end)
            await wait_for_event(gate.cancelled)
            with anyio.fail_after(TIMEOUT):
                assert [line async for line in sse.aiter_lines()] != []
        assert await mine.ping() == 200
        assert await other_headers.ping() == 401
        tokens.replace_named(TOKENS)
        assert await other_headers.ping() == 404


async def test_a_token_is_replaced_without_losing_the_session() -> None:
    tokens = StaticTokens(named=TOKENS)
    async with connect_two(build_registry(make_entry("there")), tokens) as (ann, _):
        talk = await open_session(ann)
        tokens.replace_named({**TOKENS, "ann": "another-token"})
        assert await talk.ping() == 401
        talk.headers = {**HTTP_HEADERS, **talk.headers, "Authorization": "Bearer another-token"}
        assert await talk.ping() == 200
