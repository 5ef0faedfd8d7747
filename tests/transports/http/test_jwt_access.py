"""JWTs as bearer tokens: their verification, the sources of keys, and the responses to clients."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from mcp.client.auth.utils import (
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    handle_protected_resource_response,
)

from mcp_bridge import CallContext
from mcp_bridge._transports.http.access import Access
from mcp_bridge._transports.http.bearer import Authenticator, StaticTokens
from mcp_bridge._transports.http.jwt_verifier import LEEWAY, InvalidToken, JwtOptions, JwtVerifier
from mcp_bridge._transports.http.key_set import MAX_SIZE, KeySet, KeysUnavailable
from mcp_bridge._transports.http.protected_resource import ProtectedResource
from tests.client.http_client import open_session
from tests.kits.clock import ManualClock
from tests.kits.constants import TIMEOUT
from tests.kits.http.http_hosting import (
    HTTP_WAYS,
    HttpWay,
    build_registry,
    make_entry,
    make_stateless_request,
    serve_http,
)

ISSUER, AUDIENCE = "https://login.example", "https://tools.example/deep/mcp"
METADATA = "https://tools.example/.well-known/oauth-protected-resource/deep/mcp"
OPTIONS = JwtOptions(issuer=ISSUER, audience=AUDIENCE)


def make_key(key_type: str = "rsa", number: int = 0) -> Any:
    return generate_key(key_type, number)


@cache
def generate_key(key_type: str, number: int) -> Any:
    return rsa.generate_private_key(65537, 2048) if key_type == "rsa" else ec.generate_private_key(ec.SECP256R1())


def to_jwk(kid: str | None, key: Any, **more: Any) -> dict[str, Any]:
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), **({"kid": kid} if kid else {}), **more}


def make_claims(**more: Any) -> dict[str, Any]:
    time_now = int(time.time())
    usual = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ann",
        "client_id": "editor",
        "exp": time_now + 600,
        "iat": time_now,
    }
    return {name: value for name, value in (usual | more).items() if value is not None}


def sign(kid: str | None = "one", key: Any = None, algorithm: str = "RS256", headers: Any = None, **more: Any) -> str:
    headers = {**({"kid": kid} if kid else {}), **(headers or {})}
    return jwt.encode(make_claims(**more), key or make_key(), algorithm=algorithm, headers=headers)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Write a file with one key of each type."""
    return write_keys(tmp_path / "jwks.json", to_jwk("one", make_key()), to_jwk("two", make_key("ec")))


def write_keys(path: Path, *found: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"keys": found}))
    return path


def build_verifier(location: str | Path, *scopes: str, clock: Callable[[], float] = time.monotonic) -> JwtVerifier:
    options = JwtOptions(issuer=ISSUER, audience=AUDIENCE, scopes=scopes)
    return JwtVerifier(options, KeySet(location, clock=clock))


async def verify(verifier: JwtVerifier, token: str) -> str | None:
    return (await verifier.verify(token.encode())).principal


@pytest.mark.parametrize(("kid", "key_type", "algorithm"), [("one", "rsa", "RS256"), ("two", "ec", "ES256")])
async def test_a_valid_token_names_its_client_its_issuer_and_its_subject(
    keys: Path, kid: str, key_type: str, algorithm: str
) -> None:
    token = sign(kid, make_key(key_type), algorithm)
    assert await verify(build_verifier(keys), token) == '["editor","https://login.example","ann"]'
    token = sign(kid, make_key(key_type), algorithm, client_id=None, azp="viewer")
    assert await verify(build_verifier(keys), token) == '["viewer","https://login.example","ann"]'
    assert await verify(build_verifier(keys), sign(client_id=None)) == '[null,"https://login.example","ann"]'


def encode(segment: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(segment).encode()).rstrip(b"=").decode()


def make_unsigned_token(algorithm: str) -> str:
    return f"{encode({'alg': algorithm, 'kid': 'one'})}.{encode(make_claims())}."


def swap_payload(token: str, **more: Any) -> str:
    header, _, signature = token.split(".")
    return f"{header}.{encode(make_claims(**more))}.{signature}"


def sign_with_public_key() -> str:
    """Return a token signed by HMAC with the issuer's public key as the key, a known confusion of algorithms."""
    import hashlib
    import hmac

    pem = make_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    text = f"{encode({'alg': 'HS256', 'kid': 'one'})}.{encode(make_claims())}"
    signature = hmac.new(pem, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


NOW = int(time.time())
INVALID: dict[str, Callable[[], str]] = {
    "expired": lambda: sign(exp=NOW - 100),
    "without exp": lambda: sign(exp=None),
    "exp is text": lambda: sign(exp="soon"),
    "not yet valid": lambda: sign(nbf=int(time.time()) + 600),
    "another issuer": lambda: sign(iss="https://evil.example"),
    "issuer with a slash": lambda: sign(iss=f"{ISSUER}/"),
    "without issuer": lambda: sign(iss=None),
    "another audience": lambda: sign(aud="https://other.example/mcp"),
    "without audience": lambda: sign(aud=None),
    "audience is a number": lambda: sign(aud=1),
    "without subject": lambda: sign(sub=None),
    "empty subject": lambda: sign(sub=""),
    "client is a list": lambda: sign(client_id=["editor"]),
    "unknown key": lambda: sign("three"),
    "another key": lambda: sign(key=make_key("rsa", 1)),
    "the key of another type": lambda: sign("two"),
    "no key id and two keys of a type": lambda: sign(None, make_key("rsa", 1)),
    "without signature": lambda: make_unsigned_token("none"),
    "empty signature": lambda: make_unsigned_token("RS256"),
    "changed": lambda: swap_payload(sign(), sub="eve"),
    "public key as a shared secret": sign_with_public_key,
    "ID token": lambda: sign(headers={"typ": "id+jwt"}),
    "logout token": lambda: sign(headers={"typ": "application/logout+jwt"}),
    "type is a number": lambda: sign(headers={"typ": 1}),
    "critical extension": lambda: sign(headers={"crit": ["exp"], "exp": 1}),
    "too long": lambda: sign(more="x" * 20_000),
    "deeply nested header": lambda: f"{encode(json.loads('[' * 400 + ']' * 400))}.e30.x",
    "endless nesting": lambda: base64.urlsafe_b64encode(b"[" * 9000).decode() + ".e30.x",
    "not a JWT": lambda: "a.b.c",
    "no dots": lambda: "abc",
    "dots": lambda: "..",
    "binary": lambda: "\x01\x02.\x03.\x04",
}


@pytest.mark.parametrize("make", INVALID.values(), ids=INVALID)
async def test_an_invalid_token_is_rejected_and_nothing_of_it_is_repeated(keys: Path, make: Callable[[], str]) -> None:
    token = make()
    with pytest.raises(InvalidToken) as response:
        await verify(build_verifier(keys), token)
    assert token not in str(response.value)
    assert "\n" not in str(response.value)
    assert '"' not in str(response.value)


@pytest.mark.parametrize("key_type", ["JWT", "at+jwt", "application/AT+JWT"])
async def test_a_token_that_is_declared_as_an_access_token_or_a_jwt_is_accepted(keys: Path, key_type: str) -> None:
    assert await verify(build_verifier(keys), sign(headers={"typ": key_type}))


async def test_a_token_for_several_audiences_is_accepted(keys: Path) -> None:
    assert await verify(build_verifier(keys), sign(aud=["https://other.example", AUDIENCE]))


async def test_a_verified_token_is_rejected_once_it_has_expired(keys: Path) -> None:
    verifier, exp = build_verifier(keys), int(time.time() - LEEWAY) + 2
    token = sign(exp=exp)
    await verify(verifier, token)
    while time.time() <= exp + LEEWAY:  # noqa: ASYNC110 - the library has a clock of its own
        await anyio.sleep(0.05)
    with pytest.raises(InvalidToken, match="expired"):
        await verify(verifier, token)


async def test_keys_in_a_changed_file_replace_the_earlier_ones(keys: Path) -> None:
    clock = ManualClock()
    verifier, token = build_verifier(keys, clock=clock), sign()
    assert await verify(verifier, token)
    write_keys(keys, to_jwk("three", make_key("rsa", 1)))
    clock.now += 10
    assert await verify(verifier, sign("three", make_key("rsa", 1)))
    with pytest.raises(InvalidToken):
        await verify(verifier, token)


@dataclass
class KeyServer:
    """An issuer with its keys over HTTP. It counts its requests."""

    url: str = ""
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    count: int = 0


@pytest.fixture
def issuer() -> Iterator[KeyServer]:
    response = KeyServer(body=json.dumps({"keys": [to_jwk("one", make_key())]}).encode())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            response.count += 1
            self.send_response(response.status)
            for name, value in response.headers.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(response.body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        response.url = f"http://127.0.0.1:{server.server_address[1]}/jwks"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield response
        server.shutdown()
        thread.join()


async def test_keys_from_a_url_are_fetched_once_and_again_when_they_are_old(issuer: KeyServer) -> None:
    clock = ManualClock()
    verifier = build_verifier(issuer.url, clock=clock)
    assert issuer.count == 0
    for subject in ("ann", "eve", "bob"):
        await verify(verifier, sign(sub=subject))
    assert issuer.count == 1
    clock.now += 601
    await verify(verifier, sign(sub="eva"))
    assert issuer.count == 2


async def test_unknown_keys_make_the_server_fetch_at_most_once_in_30_seconds(issuer: KeyServer) -> None:
    clock = ManualClock()
    verifier = build_verifier(issuer.url, clock=clock)
    await verify(verifier, sign())
    clock.now += 31
    for number in range(20):
        with pytest.raises(InvalidToken):
            await verify(verifier, sign(f"unknown-{number}"))
    assert issuer.count == 2
    issuer.body = json.dumps({"keys": [to_jwk("new", make_key("rsa", 1))]}).encode()
    with pytest.raises(InvalidToken):
        await verify(verifier, sign("new", make_key("rsa", 1)))
    clock.now += 31
    assert await verify(verifier, sign("new", make_key("rsa", 1)))
    assert issuer.count == 3


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (500, {}, None),
        (302, {"Location": "/elsewhere"}, None),
        (200, {}, b"not JSON"),
        (200, {}, b"[]"),
        (200, {}, b'{"keys": []}'),
        (200, {}, b'{"keys": [1]}'),
        (200, {}, b" " * (MAX_SIZE + 1)),
        (200, {}, b"[" * 100_000),
        (200, {}, json.dumps({"keys": [{"kty": "RSA"}] * 201}).encode()),
    ],
)
async def test_known_keys_stay_in_use_if_the_issuer_fails_and_without_keys_no_token_is_verified(
    issuer: KeyServer, status: int, headers: dict[str, str], body: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    good, clock = issuer.body, ManualClock()
    verifier = build_verifier(issuer.url, clock=clock)
    issuer.status, issuer.headers, issuer.body = status, headers, issuer.body if body is None else body
    for _ in range(3):
        with pytest.raises(KeysUnavailable):
            await verify(verifier, sign())
    assert issuer.count == 1
    assert "cannot read the keys for tokens" in caplog.text
    issuer.status, issuer.headers, issuer.body = 200, {}, good
    clock.now += 6
    assert await verify(verifier, sign())
    issuer.status = 500
    clock.now += 3600
    assert await verify(verifier, sign(sub="eve"))
    clock.now += 24 * 3600
    with pytest.raises(KeysUnavailable):
        await verify(verifier, sign(sub="eva"))


async def show(data: Any, ctx: CallContext) -> str:
    return str(ctx.principal)


@contextlib.asynccontextmanager
async def serve_protected(
    location: str | Path, *scopes: str, url: str | None = AUDIENCE, token: str | None = None
) -> AsyncIterator[tuple[str, httpx2.AsyncClient]]:
    resource = ProtectedResource(issuer=ISSUER, scopes=scopes, url=url)
    authenticator = Authenticator(StaticTokens(token), build_verifier(location, *scopes), resource)
    access = Access.for_host("127.0.0.1", hosts=["tools.example"], authenticator=authenticator)
    async with (
        serve_http(build_registry(make_entry("show", show)), access=access) as (base, _),
        httpx2.AsyncClient(base_url=base, timeout=TIMEOUT) as http,
    ):
        yield base, http


async def call(http: httpx2.AsyncClient, token: str | None) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    return await http.post("/mcp", **make_stateless_request("tools/call", {"name": "show", "arguments": {}}, **headers))


@pytest.mark.parametrize("way", HTTP_WAYS, ids=lambda way: f"{way.transport}-{way.mode}")
async def test_clients_are_accepted_with_a_jwt_or_a_static_token(keys: Path, way: HttpWay) -> None:
    async with serve_protected(keys, token="static") as (base, _):
        for token, principal in ((sign(), '["editor","https://login.example","ann"]'), ("static", "None")):
            async with way.connect(base, token=token) as client:
                content: Any = (await client.call_tool("show", {})).content[0]
                assert content.text == principal


async def test_a_session_belongs_to_the_principal_of_a_jwt_and_not_to_the_token(keys: Path) -> None:
    async with serve_protected(keys) as (_, http):
        http.headers["Authorization"] = f"Bearer {sign()}"
        session = await open_session(http)
        for token, status in ((sign(iat=1), 200), (sign(sub="eve"), 404), (sign(client_id="other"), 404)):
            http.headers["Authorization"] = f"Bearer {token}"
            assert await session.ping() == status


async def test_a_client_without_a_token_receives_the_address_of_the_issuer(keys: Path) -> None:
    async with serve_protected(keys, "tools:read", "tools:call") as (_, http):
        challenge = (await call(http, None)).headers["www-authenticate"]
        assert challenge == f'Bearer realm="mcp-bridge", resource_metadata="{METADATA}", scope="tools:read tools:call"'
        for path in ("", "/mcp", "/sse", "/deep/mcp"):
            response = await http.get(f"/.well-known/oauth-protected-resource{path}")
            assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
            assert response.json() == {
                "resource": AUDIENCE,
                "authorization_servers": [ISSUER],
                "bearer_methods_supported": ["header"],
                "scopes_supported": ["tools:read", "tools:call"],
            }
        for path in ("/other", "x", "/mcp/more"):
            assert (await http.get(f"/.well-known/oauth-protected-resource{path}")).status_code == 404
        assert (await http.post("/.well-known/oauth-protected-resource")).status_code == 405
        headers = {"Host": "evil.example"}
        assert (await http.get("/.well-known/oauth-protected-resource", headers=headers)).status_code == 421


async def test_an_audience_that_is_no_url_makes_the_address_of_the_request_the_resource(keys: Path) -> None:
    async with serve_protected(keys, url=None) as (_, http):
        for host, resource in (
            ("tools.example:8443", "tools.example:8443"),
            ("[::1]:1", "[::1]:1"),
            ("LocalHost", "localhost"),
        ):
            challenge = (await http.post("/mcp", headers={"Host": host})).headers["www-authenticate"]
            address = f"http://{resource}/.well-known/oauth-protected-resource/mcp"
            assert challenge == f'Bearer realm="mcp-bridge", resource_metadata="{address}"'
            response = await http.get("/.well-known/oauth-protected-resource/mcp", headers={"Host": host})
            assert response.json()["resource"] == f"http://{resource}/mcp"


async def test_the_response_to_a_rejected_token_has_the_reason(keys: Path) -> None:
    async with serve_protected(keys) as (_, http):
        response = await call(http, sign(exp=NOW - 100))
        assert response.status_code == 401
        assert (
            'error="invalid_token", error_description="The token has expired."' in response.headers["www-authenticate"]
        )
        assert METADATA in response.headers["www-authenticate"]
        assert (await http.get("/sse", headers={"Authorization": f"Bearer {sign(aud='x')}"})).status_code == 401


@pytest.mark.parametrize(
    ("granted", "status"),
    [
        ({"scope": "tools:call tools:read more"}, 200),
        ({"scp": ["tools:call", "tools:read"]}, 200),
        ({"scope": "tools:read"}, 403),
        ({"scope": ["tools:call", 1, None]}, 403),
        ({"scope": {"tools:read": 1, "tools:call": 1}}, 403),
        ({}, 403),
    ],
)
async def test_a_token_needs_every_scope(keys: Path, granted: dict[str, Any], status: int) -> None:
    async with serve_protected(keys, "tools:read", "tools:call") as (_, http):
        response = await call(http, sign(**granted))
        assert response.status_code == status
        if status == 403:
            challenge = response.headers["www-authenticate"]
            assert 'error="insufficient_scope"' in challenge
            assert 'scope="tools:read tools:call"' in challenge
            assert f'resource_metadata="{METADATA}"' in challenge


async def test_while_the_keys_are_unavailable_clients_are_asked_to_retry(tmp_path: Path) -> None:
    async with serve_protected(tmp_path / "missing", token="static") as (_, http):
        response = await call(http, sign())
        assert (response.status_code, response.headers["retry-after"]) == (503, "5")
        assert (await call(http, "static")).status_code == 200
        assert (await http.get("/health", headers={"Authorization": f"Bearer {sign()}"})).json() == {"status": "ok"}


async def test_the_official_client_finds_the_issuer(keys: Path) -> None:
    async with serve_protected(keys, "use") as (_, http):
        challenge = await call(http, None)
        assert extract_resource_metadata_from_www_auth(challenge) == METADATA
        assert extract_scope_from_www_auth(challenge) == "use"
        response = await http.get("/.well-known/oauth-protected-resource/mcp")
        metadata = await handle_protected_resource_response(response)
        assert metadata is not None
        assert (str(metadata.resource), str(metadata.authorization_servers[0])) == (AUDIENCE, ISSUER)


async def test_a_server_without_jwt_has_no_metadata() -> None:
    access = Access.for_host("127.0.0.1", token="static")
    async with serve_http(build_registry(), access=access) as (base, _), httpx2.AsyncClient(base_url=base) as http:
        assert (await http.get("/.well-known/oauth-protected-resource")).status_code == 404
        assert (await http.post("/mcp")).headers["www-authenticate"] == 'Bearer realm="mcp-bridge"'
