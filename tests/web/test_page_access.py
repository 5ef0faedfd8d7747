"""Who may read the page and act at it: tokens, other sites, principals, and files without data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bridge._web import feed
from mcp_bridge._web.static_files import FILES, StaticFiles
from tests.kits.constants import TIMEOUT
from tests.kits.http.http_hosting import build_registry, make_entry, serve_http
from tests.kits.upstream.trust_kit import ScriptedGateway, describe_tool
from tests.kits.web.web_kit import TOKEN, serve_page

API = ("audit", "state", "events", "calls/1")
ACTIONS = ("questions/1", "quarantine/source/tool", "installs/cursor", "sources/files", "dialects/codex")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: Any) -> None:
    """Create the files of the page as an installation has them."""
    for name, _ in FILES.values():
        (tmp_path / name).write_text(f"content of {name}")
    monkeypatch.setattr("mcp_bridge._web.api.StaticFiles", lambda: StaticFiles(tmp_path))


@pytest.mark.usefixtures("files")
async def test_the_files_need_no_token_and_forbid_everything_external() -> None:
    async with serve_page(build_registry(make_entry("echo"))) as server, server.read(None) as page:
        for path, (name, media_type) in FILES.items():
            response = await page.http.get(path or "/")
            assert (response.status_code, response.text) == (200, f"content of {name}")
            assert response.headers["content-type"] == media_type.decode()
            policy = response.headers["content-security-policy"]
            assert policy.startswith("default-src 'self';")
            assert "unsafe" not in policy
            assert response.headers["x-content-type-options"] == "nosniff"
            assert response.headers["x-frame-options"] == "DENY"
            assert response.headers["referrer-policy"] == "no-referrer"
            tag = response.headers["etag"]
            assert (await page.http.get(path or "/", headers={"If-None-Match": tag})).status_code == 304
            assert (await page.http.post(path or "/")).status_code == 405


async def test_without_the_setting_there_is_no_page_and_no_observer() -> None:
    registry = build_registry(make_entry("echo"))
    async with serve_http(registry) as (base, _):
        from httpx2 import AsyncClient

        async with AsyncClient(base_url=base) as http:
            for path in ("/", "/page/state", "/page/events", "/page/app.js"):
                assert (await http.get(path)).status_code == 404
    assert registry.pipeline.observer is None


@pytest.mark.parametrize("token", [None, "wrong", TOKEN[:-1]])
async def test_every_path_of_the_api_needs_the_token(token: str | None) -> None:
    async with serve_page(build_registry(make_entry("echo"))) as server, server.read(token) as page:
        for path in API:
            assert (await page.http.get(f"/page/{path}")).status_code == 401
        for path in (*ACTIONS, "questions/health", "quarantine/source/health"):
            assert (await page.post(path)).status_code == 401


OTHER_SITES = (
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:3000"},
    {"Origin": "https://127.0.0.1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Host": "evil.example"},
)


@pytest.mark.parametrize("headers", OTHER_SITES, ids=str)
async def test_the_page_of_another_site_can_neither_read_nor_act(headers: dict[str, str]) -> None:
    async with serve_page(build_registry(make_entry("echo"))) as server, server.read(**headers) as page:
        for path in API:
            response = await page.http.get(f"/page/{path}")
            assert response.status_code in (403, 421)
            assert "access-control-allow-origin" not in response.headers
        for path in ACTIONS:
            assert (await page.post(path)).status_code in (403, 421)


async def test_the_page_itself_and_configured_origins_can_use_the_api() -> None:
    origin = "https://admin.example"
    async with serve_page(build_registry(make_entry("echo")), origins=[origin]) as server:
        same_origin = {"Origin": server.base, "Sec-Fetch-Site": "same-origin"}
        for headers in (same_origin, {"Origin": origin, "Sec-Fetch-Site": "cross-site"}):
            async with server.read(**headers) as page:
                await page.read_state()


async def test_requests_that_a_form_of_another_site_can_send_are_rejected() -> None:
    async with serve_page(build_registry(make_entry("echo"))) as server, server.read() as page:
        for media_type in ("text/plain", "application/x-www-form-urlencoded"):
            headers = {"Content-Type": media_type}
            response = await page.http.post("/page/questions/1", content='{"choice": "once"}', headers=headers)
            assert response.status_code == 400
        for content in ("[]", "{", "1"):
            headers = {"Content-Type": "application/json"}
            response = await page.http.post("/page/questions/1", content=content, headers=headers)
            assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid")
        assert (await page.http.get("/page/questions/1")).status_code == 405
        assert (await page.http.get("/page/nothing")).status_code == 404


async def test_without_a_token_the_page_is_read_only() -> None:
    async with serve_page(build_registry(make_entry("echo")), token=None) as server, server.read(None) as page:
        assert set((await page.read_state())["can"].values()) == {False}
        for path in ACTIONS:
            response = await page.post(path, choice="once")
            assert (response.status_code, response.json()["error"]["code"]) == (403, "forbidden")


async def test_a_principal_sees_its_own_calls_and_an_operator_sees_all() -> None:
    tokens = {"alice": "token-of-alice", "bob": "token-of-bob", "carol": "token-of-carol"}
    registry = build_registry(make_entry("echo"))
    async with (
        serve_page(registry, principals=tokens, operators=["carol"]) as server,
        server.read("token-of-alice") as alice,
        server.read("token-of-bob") as bob,
        server.read("token-of-carol") as carol,
        server.read() as owner,
        alice.follow(),
        carol.follow(),
    ):
        await bob.call_tool("echo")
        await alice.call_tool("echo")
        await alice.wait_for("call", lambda call: call["id"] == 2)
        await carol.wait_for("call", lambda call: call["id"] == 2)
        pages = {"alice": alice, "carol": carol, "owner": owner}
        states = {name: await page.read_state() for name, page in pages.items()}
        assert (await alice.post("installs/cursor")).status_code == 403
        assert (await alice.post("quarantine/a/b", action="accept", fingerprint="x")).status_code == 403
    assert {data["principal"] for _, name, data in alice.events if name in ("call", "client")} == {"alice"}
    assert {data["principal"] for _, name, data in carol.events if name == "call"} == {"alice", "bob"}
    state_of_alice = states["alice"]
    assert [call["principal"] for call in state_of_alice["calls"]] == ["alice"]
    assert [client["principal"] for client in state_of_alice["clients"]] == ["alice"]
    assert state_of_alice["settings"] is None
    assert state_of_alice["can"] == {
        "answer": True,
        "approve": True,
        "quarantine": False,
        "retry": False,
        "dialect": False,
        "install": False,
    }
    for name in ("carol", "owner"):
        assert [call["principal"] for call in states[name]["calls"]] == ["alice", "bob"]


async def test_a_token_without_a_principal_is_not_an_operator_if_others_have_principals() -> None:
    async with (
        serve_page(
            build_registry(make_entry("echo")), principals={"alice": "token-of-alice"}, is_shared=True
        ) as server,
        server.read("token-of-alice") as alice,
        server.read() as page_without_principal,
    ):
        await alice.call_tool("echo")
        state = await page_without_principal.read_state()
        assert (state["calls"], state["settings"], state["sources"]) == ([], None, [])
        assert not state["can"]["quarantine"]
        assert (await page_without_principal.post("installs/cursor")).status_code == 403


async def test_only_operators_see_the_sources(tmp_path: Path) -> None:
    gateway = ScriptedGateway(tmp_path)
    gateway.offer(describe_tool())
    async with (
        serve_page(gateway.build(), principals={"alice": "token-of-alice"}) as server,
        server.read("token-of-alice") as alice,
        server.read() as owner,
        alice.follow(),
        owner.follow(),
    ):
        await owner.wait_for_state(lambda state: state["sources"][0]["tools"] == 1)
        gateway.offer(describe_tool(), describe_tool("write"), notify=True)
        await owner.wait_for("source", lambda row: row["tools"] == 2)
        await alice.call_tool("files__read")
        # This event arrives after all others for Alice.
        await alice.wait_for("call")
        assert (await alice.read_state())["sources"] == []
    assert "source" not in [name for _, name, _ in alice.events]


async def test_a_principal_cannot_open_all_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MAX_OWN_PAGES", 1)
    tokens = {"alice": "token-of-alice", "carol": "token-of-carol"}
    async with (
        serve_page(build_registry(make_entry("echo")), principals=tokens, operators=["carol"]) as server,
        server.read("token-of-alice") as alice,
        server.read("token-of-carol") as carol,
        alice.follow(),
        carol.follow(),
        alice.http.stream("GET", "/page/events") as second_of_alice,
        carol.http.stream("GET", "/page/events") as second_of_carol,
    ):
        assert (second_of_alice.status_code, second_of_carol.status_code) == (503, 200)


async def test_the_last_pages_are_reserved_for_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MAX_PAGES", feed.OPERATOR_PAGES)
    tokens = {"alice": "token-of-alice", "carol": "token-of-carol"}
    async with (
        serve_page(build_registry(make_entry("echo")), principals=tokens, operators=["carol"]) as server,
        server.read("token-of-alice") as alice,
        server.read("token-of-carol") as carol,
        alice.http.stream("GET", "/page/events") as page_of_alice,
        carol.http.stream("GET", "/page/events") as page_of_carol,
    ):
        assert (page_of_alice.status_code, page_of_carol.status_code) == (503, 200)


async def test_a_removed_token_ends_the_streams_of_its_principal() -> None:
    async with (
        serve_page(build_registry(make_entry("echo")), principals={"alice": "token-of-alice"}) as server,
        server.read("token-of-alice") as alice,
        alice.http.stream("GET", "/page/events") as stream,
    ):
        assert stream.status_code == 200
        server.tokens.replace_named({})
        with anyio.fail_after(TIMEOUT):
            async for _ in stream.aiter_raw():
                pass
