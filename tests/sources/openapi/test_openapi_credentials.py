"""Credentials: their origins, the requests with them, and the places without them."""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from tests.kits.openapi.api_server import (
    ApiServer,
    Json,
    Received,
    Reply,
    find_problems,
    get_text,
    json_reply,
    make_document,
    serve_document,
)

SECRET = "s3cret-that-must-not-be-seen"
BASIC = f"Basic {base64.b64encode(f'ann:{SECRET}'.encode()).decode()}"


def make_secured_api(scheme: Json, **content: Json) -> Json:
    operation = {"operationId": "run", "security": [{"s": []}], **content}
    return make_document({"/x": {"get": operation}}, components={"securitySchemes": {"s": scheme}})


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_SECRET", SECRET)


@pytest.mark.parametrize(
    ("place", "name", "spelling"), [("query", "key", "key"), ("header", "X-Key", "x-key"), ("cookie", "sid", "sid")]
)
async def test_a_credential_that_is_also_a_parameter_is_sent_once_and_not_asked_from_the_model(
    place: str, name: str, spelling: str, api: ApiServer, tmp_path: Path
) -> None:
    parameter = {"name": spelling, "in": place, "required": True, "schema": {"type": "string"}}
    city_parameter = {"name": "city", "in": "query", "schema": {"type": "string"}}
    document = make_secured_api({"type": "apiKey", "in": place, "name": name}, parameters=[parameter, city_parameter])
    async with serve_document(tmp_path, document, server=api.url, auth={"s": "env:API_SECRET"}) as client:
        (tool,) = (await client.list_tools()).tools
        assert list(tool.input_schema["properties"]) == ["city"]
        assert not (await client.call_tool("run", {"city": "Bonn"})).is_error
    (request,) = api.received
    assert f"{request.target} {request.headers}".count(SECRET) == 1


async def test_a_header_of_the_settings_is_not_asked_from_the_model(api: ApiServer, tmp_path: Path) -> None:
    parameter = {"name": "X-Tenant", "in": "header", "required": True, "schema": {"type": "string"}}
    document = make_document({"/x": {"get": {"operationId": "run", "parameters": [parameter]}}})
    async with serve_document(tmp_path, document, server=api.url, headers={"x-tenant": "a"}) as client:
        assert not (await client.call_tool("run", {})).is_error
    assert api.received[0].headers["x-tenant"] == "a"


@pytest.mark.parametrize(
    ("scheme", "auth", "header", "query"),
    [
        ({"type": "apiKey", "in": "header", "name": "X-Key"}, "env:API_SECRET", ("x-key", SECRET), ""),
        ({"type": "apiKey", "in": "query", "name": "api key"}, "env:API_SECRET", None, f"api%20key={SECRET}"),
        ({"type": "apiKey", "in": "cookie", "name": "sid"}, "env:API_SECRET", ("cookie", f"sid={SECRET}"), ""),
        ({"type": "http", "scheme": "Bearer"}, "env:API_SECRET", ("authorization", f"Bearer {SECRET}"), ""),
        ({"type": "http", "scheme": "token"}, "token env:API_SECRET", ("authorization", f"token {SECRET}"), ""),
        ({"type": "oauth2", "flows": {}}, "env:API_SECRET", ("authorization", f"Bearer {SECRET}"), ""),
        ({"type": "http", "scheme": "basic"}, {"username": "ann", "password": "env:API_SECRET"},
         ("authorization", BASIC), ""),
    ],
)  # fmt: skip
async def test_credentials_are_sent_in_the_place_of_the_scheme(
    scheme: Json, auth: str | Json, header: tuple[str, str] | None, query: str, api: ApiServer, tmp_path: Path
) -> None:
    async with serve_document(tmp_path, make_secured_api(scheme), server=api.url, auth={"s": auth}) as client:
        assert not (await client.call_tool("run", {})).is_error
    (request,) = api.received
    assert request.target == (f"/x?{query}" if query else "/x")
    if header is not None:
        assert request.headers[header[0]] == header[1]


async def test_a_credential_can_be_in_a_file_and_is_read_again_after_it_was_rejected(
    api: ApiServer, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("old-token-of-this-api")
    scheme = {"type": "http", "scheme": "bearer"}
    api.reply = lambda request: Reply(status=200 if "new" in request.headers["authorization"] else 401)
    async with serve_document(tmp_path, make_secured_api(scheme), server=api.url, auth={"s": f"file:{file}"}) as client:
        file.write_text("new-token-of-this-api")
        assert get_text(await client.call_tool("run", {})).startswith("HTTP status 401")
        assert not (await client.call_tool("run", {})).is_error
        file.unlink()
        assert not (await client.call_tool("run", {})).is_error
        api.reply = Reply(status=401)
        await client.call_tool("run", {})
        result = await client.call_tool("run", {})
    assert get_text(result).startswith(f"The API did not respond: auth.s: {file} cannot be read: No such file")
    assert [request.headers["authorization"][7:10] for request in api.received] == ["old", "new", "new", "new"]


async def test_a_secret_never_reaches_a_client_or_the_log(
    api: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    api.reply = lambda request: json_reply({"seen": request.target, "headers": dict(request.headers)}, 400)
    scheme = {"type": "apiKey", "in": "query", "name": "key"}
    headers = {"X-Other": "Bearer env:API_SECRET"}
    with caplog.at_level(logging.DEBUG):
        async with serve_document(
            tmp_path, make_secured_api(scheme), server=api.url, auth={"s": "env:API_SECRET"}, headers=headers
        ) as client:
            result = await client.call_tool("run", {})
    assert api.received[0].headers["x-other"] == f"Bearer {SECRET}"
    assert SECRET in api.received[0].target
    assert SECRET not in result.model_dump_json()
    ours = [record for record in caplog.records if record.name.startswith("mcp_bridge")]
    assert SECRET not in "".join(record.getMessage() for record in ours)


@pytest.mark.parametrize("tools", [[], ["run"]], ids=["all", "some"])
async def test_a_secret_of_an_isolated_source_never_reaches_a_client(
    tools: list[str], api: ApiServer, tmp_path: Path
) -> None:
    api.reply = lambda request: json_reply({"headers": dict(request.headers)})
    scheme = {"type": "apiKey", "in": "header", "name": "X-Key"}
    isolation = {"env": ["API_SECRET"], "workers": 1, "tools": tools}
    async with serve_document(
        tmp_path, make_secured_api(scheme), server=api.url, auth={"s": "env:API_SECRET"}, isolation=isolation
    ) as client:
        result = await client.call_tool("run", {})
    assert api.received[0].headers["x-key"] == SECRET
    assert "[secret]" in get_text(result)
    assert SECRET not in result.model_dump_json()


@pytest.mark.parametrize(
    ("security", "auth", "names"),
    [
        ([{"a": []}, {"b": []}], {"b": "key-b"}, {"x-b"}),
        ([{"a": [], "b": []}], {"a": "key-a", "b": "key-b"}, {"x-a", "x-b"}),
        ([{}, {"a": []}], {"a": "key-a"}, {"x-a"}),
        ([{}, {"a": []}], {}, set()),
        ([], {"a": "key-a"}, set()),
    ],
)  # fmt: skip
async def test_only_the_credentials_that_an_operation_requires_are_sent(
    security: list[Json], auth: Json, names: set[str], api: ApiServer, tmp_path: Path
) -> None:
    schemes = {name: {"type": "apiKey", "in": "header", "name": f"x-{name}"} for name in "ab"}
    document = make_secured_api({}, security=security)
    document["components"]["securitySchemes"] = schemes
    async with serve_document(tmp_path, document, server=api.url, auth=auth) as client:
        assert not (await client.call_tool("run", {})).is_error
    assert {name for name in api.received[0].headers if name.startswith("x-")} == names


async def test_operations_without_their_credentials_are_reported(
    api: ApiServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    document = make_secured_api({"type": "http", "scheme": "bearer"})
    async with serve_document(tmp_path, document, server=api.url) as client:
        assert not (await client.call_tool("run", {})).is_error
    assert "1 operations require credentials that the settings do not have (GET /x). Set auth.s" in caplog.text


class TokenServer:
    """An API with a token endpoint."""

    def __init__(self, lifetime: int = 3600) -> None:
        self.lifetime = lifetime
        self.fetched = 0

    def __call__(self, request: Received) -> Reply:
        if request.path == "/token":
            self.fetched += 1
            assert (
                request.headers["authorization"] == f"Basic {base64.b64encode(b'me%3A1:' + SECRET.encode()).decode()}"
            )
            assert dict(parse_qsl(request.body.decode())) == {"grant_type": "client_credentials", "scope": "a b"}
            return json_reply({"access_token": f"token-number-{self.fetched}", "expires_in": self.lifetime})
        return json_reply({"got": request.headers["authorization"]})


@pytest.mark.parametrize(("lifetime", "fetched"), [(3600, 1), (1, 2)])
async def test_a_token_of_a_client_is_fetched_once_and_again_when_it_expires(
    lifetime: int, fetched: int, api: ApiServer, tmp_path: Path
) -> None:
    api.reply = server = TokenServer(lifetime)
    scheme = {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": f"{api.url}/token", "scopes": {}}}}
    auth = {"client_id": "me:1", "client_secret": "env:API_SECRET", "scopes": ["a", "b"]}
    async with serve_document(tmp_path, make_secured_api(scheme), server=api.url, auth={"s": auth}) as client:
        results = [await client.call_tool("run", {}) for _ in range(2)]
    assert server.fetched == fetched
    assert api.received[-1].headers["authorization"] == f"Bearer token-number-{fetched}"
    assert all("token-number" not in result.model_dump_json() for result in results)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (json_reply({"error": "invalid_client"}, 401), "the server responded with HTTP status 401 and without a token"),
        (Reply(b"no"), "the server responded with HTTP status 200 and without a token"),
        (json_reply({"access_token": "t\r\nX: 1"}), "the server responded with HTTP status 200 and without a token"),
    ],
)
async def test_a_token_that_cannot_be_fetched_is_an_error(
    reply: Reply, problem: str, api: ApiServer, tmp_path: Path
) -> None:
    api.reply = reply
    auth = {"client_id": "me", "client_secret": "env:API_SECRET", "token_url": f"{api.url}/t"}
    document = make_secured_api({"type": "openIdConnect", "openIdConnectUrl": "x"})
    async with serve_document(tmp_path, document, server=api.url, auth={"s": auth}) as client:
        result = await client.call_tool("run", {})
    assert result.is_error
    assert problem in get_text(result)
    assert len(api.received) == 1


async def test_a_token_server_that_is_down_is_an_error(api: ApiServer, tmp_path: Path) -> None:
    auth = {"client_id": "me", "client_secret": "env:API_SECRET", "token_url": "http://127.0.0.1:9/t"}
    document = make_secured_api({"type": "oauth2", "flows": {}})
    async with serve_document(tmp_path, document, server=api.url, auth={"s": auth}) as client:
        result = await client.call_tool("run", {})
    assert get_text(result).startswith("The token could not be fetched: the server cannot be reached")
    assert api.received == []


@pytest.mark.parametrize(
    ("scheme", "auth", "problem"),
    [
        ({"type": "http", "scheme": "basic"}, "env:API_SECRET", "auth.s: it needs `username` and `password`"),
        ({"type": "http", "scheme": "bearer"}, {"username": "a"}, "auth.s: it needs a token. Write a reference such as "
                                                                  "env:NAME"),
        ({"type": "apiKey", "in": "header", "name": "X"}, {"client_id": "a"}, "auth.s: it is an API key. Write a "
                                                                              "reference such as env:NAME"),
        ({"type": "oauth2", "flows": {}}, {"client_id": "a"}, "auth.s: the document has no flow clientCredentials. Add "
                                                              "`token_url`, or write a token"),
        ({"type": "mutualTLS"}, "env:API_SECRET", "auth.s: schemes of type 'mutualTLS' are not supported"),
        ({"$ref": "#/nothing"}, "env:API_SECRET", "auth.s: the document has no such security scheme. It has: none"),
        ({"type": "http", "scheme": "bearer"}, "env:NOT_SET_AT_ALL",
         "auth.s: the environment variable NOT_SET_AT_ALL is not set"),
        ({"type": "http", "scheme": "bearer"}, "a\nb", "auth.s: the credential has characters that a header "
                                                       "cannot have, or spaces at its ends"),
        ({"type": "http", "scheme": "bearer"}, "ab ", "auth.s: the credential has characters that a header "
                                                      "cannot have, or spaces at its ends"),
    ],
)  # fmt: skip
async def test_credentials_that_do_not_suit_stop_the_source(
    scheme: Json, auth: str | Json, problem: str, tmp_path: Path
) -> None:
    assert await find_problems(tmp_path, make_secured_api(scheme), server="https://x.example", auth={"s": auth}) == [
        problem
    ]
