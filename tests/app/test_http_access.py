"""Named tokens from the settings: read from variables and files, and read again after a change."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from mcp_bridge._app.http_access import TokenReloader, read_tokens
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings import Settings, load
from mcp_bridge._transports.http.bearer import StaticTokens
from tests.kits.constants import TIMEOUT
from tests.kits.http.http_hosting import make_stateless_request
from tests.kits.http.http_process import fail_to_start, get_command, run_http_server

SETTINGS = """
sources: [{{type: python, path: tools.py}}]
http:
  tokens:
    {tokens}
"""


def write_settings(folder: Path, *tokens: str) -> Path:
    path = folder / "tokens.yaml"
    path.write_text(SETTINGS.format(tokens="\n    ".join(tokens)))
    return path


def load_from(folder: Path, *tokens: str) -> Settings:
    return load(write_settings(folder, *tokens), os.environ)


def test_tokens_come_from_variables_and_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("token-of-eve\n")
    settings = load_from(tmp_path, "ann: env:ANN_TOKEN", "eve@example.org: file:secret")
    result = read_tokens(settings, {"ANN_TOKEN": "token-of-ann"})
    assert result == {"ann": "token-of-ann", "eve@example.org": "token-of-eve"}


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        ("env:UNSET_TOKEN", "cannot read the token of 'ann': the environment variable is not set. Check env:UNSET_"),
        ("file:missing", "cannot read the token of 'ann': No such file or directory. Check file:missing"),
        ("file:empty", "a token is printable ASCII without spaces"),
        ("file:two", "a token is printable ASCII without spaces"),
        ("file:binary", "the file is not text"),
    ],
)
def test_a_token_that_cannot_be_read_is_reported_with_its_line(tmp_path: Path, token: str, problem: str) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "two").write_text("first-secret second-secret\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError) as result:
        read_tokens(load_from(tmp_path, f"ann: {token}"), {})
    assert problem in str(result.value)
    assert "tokens.yaml:5: http.tokens.ann" in str(result.value)
    assert "first-secret" not in str(result.value)


def test_two_names_cannot_have_the_same_token(tmp_path: Path) -> None:
    settings = load_from(tmp_path, "ann: env:ONE", "eve: env:TWO")
    with pytest.raises(ConfigError, match="the token of 'eve' also belongs to another name"):
        read_tokens(settings, {"ONE": "the-same", "TWO": "the-same"})


@pytest.mark.parametrize("value", ["hunter2-literal", "${LITERAL_TOKEN}"])
def test_a_token_in_the_settings_themselves_is_rejected_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("LITERAL_TOKEN", "hunter2-literal")
    with pytest.raises(ConfigError, match=r"expected env:NAME .* or file:PATH") as result:
        load_from(tmp_path, f"ann: {value}")
    assert "hunter2" not in str(result.value)


@pytest.mark.parametrize("name", ['\'["a","b","c"]\'', "a/b", "' '", "''", "-x", "a" * 65])
def test_an_invalid_name_of_a_principal_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError):
        load_from(tmp_path, f"{name}: env:ANN_TOKEN")


async def test_changed_files_are_read_again_and_faulty_ones_change_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "ann").write_text("first-token-of-ann")
    (tmp_path / "eve").write_text("token-of-eve")
    secrets: set[str] = set()
    path = write_settings(tmp_path, "ann: file:ann")
    reloader = TokenReloader(path, load(path, os.environ), secrets.update)
    accepted = reloader.accepted = StaticTokens(named=reloader.tokens)

    def find(token: str) -> str | None:
        owner = accepted.find_caller(token.encode())
        return owner.principal if owner is not None else None

    # Nothing has changed.
    await reloader.reload_changes()
    assert not secrets

    # The token of ann changes.
    (tmp_path / "ann").write_text("a-second-token-of-ann")
    await reloader.reload_changes()
    assert (find("first-token-of-ann"), find("a-second-token-of-ann")) == (None, "ann")
    assert secrets == {"a-second-token-of-ann"}

    # The settings get another name.
    write_settings(tmp_path, "ann: file:ann", "eve: file:eve")
    await reloader.reload_changes()
    assert find("token-of-eve") == "eve"

    # A missing file, invalid settings, and settings with a missing file change nothing.
    with caplog.at_level(logging.ERROR, "mcp_bridge.app"):
        (tmp_path / "eve").unlink()
        await reloader.reload_changes()
        path.write_text("http: [")
        await reloader.reload_changes()
        write_settings(tmp_path, "eve: file:later")
        await reloader.reload_changes()
    assert (find("a-second-token-of-ann"), find("token-of-eve")) == ("ann", "eve")
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert [text.split(",")[0] for text in errors] == ["http.tokens was not reloaded"] * 3

    # When the file exists, the last settings apply. They have no token for ann.
    (tmp_path / "later").write_text("a-third-token-of-eve")
    await reloader.reload_changes()
    assert (find("a-second-token-of-ann"), find("a-third-token-of-eve")) == (None, "eve")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_accepts_a_new_token_without_a_restart_and_never_shows_one(tmp_path: Path) -> None:
    (tmp_path / "ann").write_text("first-token-of-ann")
    write_settings(tmp_path, "ann: file:ann", "eve: env:EVE_TOKEN")
    argv = get_command("tokens.yaml", "--http", "127.0.0.1:0", "--log-level", "debug")
    async with (
        run_http_server(tmp_path, argv, {"EVE_TOKEN": "token-of-eve"}) as server,
        httpx2.AsyncClient(base_url=server.base, timeout=TIMEOUT) as http,
    ):

        async def status_of(token: str) -> int:
            request = make_stateless_request("tools/list", Authorization=f"Bearer {token}")
            return (await http.post("/mcp", **request)).status_code

        assert [await status_of(token) for token in ("first-token-of-ann", "token-of-eve", "x")] == [200, 200, 401]
        # Responses to a client with a token are not for shared caches.
        listing = (
            await http.post("/mcp", **make_stateless_request("tools/list", Authorization="Bearer token-of-eve"))
        ).json()
        assert listing["result"]["cacheScope"] == "private"
        (tmp_path / "ann").write_text("a-second-token-of-ann")
        await server.wait_for_stderr("http.tokens was reloaded")
        assert await status_of("a-second-token-of-ann") == 200
        assert await status_of("first-token-of-ann") == 401
        assert not [word for word in ("token-of-ann", "token-of-eve") if word in server.stderr]


def test_a_server_with_named_tokens_may_listen_on_any_address_but_not_without_the_token(tmp_path: Path) -> None:
    write_settings(tmp_path, "ann: env:UNSET_TOKEN")
    # The error is about the token, and not about the address.
    code, message = fail_to_start(tmp_path, "tokens.yaml", "--http", "0.0.0.0:0")
    assert code == 2
    assert "http.tokens.ann: cannot read the token of 'ann'" in message


JWT = """
sources: [{{type: python, path: tools.py}}]
http:
  jwt: {{issuer: "https://login.example", audience: "https://tools.example/mcp", {more}}}
"""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_accepts_the_tokens_of_an_issuer(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [ECAlgorithm.to_jwk(key.public_key(), as_dict=True)]}))
    (tmp_path / "jwt.yaml").write_text(JWT.format(more="jwks: keys.json, scopes: [use]"))
    usual = {"iss": "https://login.example", "aud": "https://tools.example/mcp", "sub": "ann", "exp": time.time() + 60}
    async with (
        run_http_server(tmp_path, get_command("jwt.yaml", "--http", "127.0.0.1:0")) as server,
        httpx2.AsyncClient(base_url=server.base, timeout=TIMEOUT) as http,
    ):
        for claims, status in (({"scope": "use"}, 200), ({"scope": "look"}, 403), ({"scope": "use", "aud": "x"}, 401)):
            token = jwt.encode({**usual, **claims}, key, algorithm="ES256")
            result = await http.post("/mcp", **make_stateless_request("tools/list", Authorization=f"Bearer {token}"))
            assert result.status_code == status
            assert status != 200 or result.json()["result"]["cacheScope"] == "private"
        metadata = (await http.get("/.well-known/oauth-protected-resource")).json()
        assert metadata["authorization_servers"] == ["https://login.example"]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("jwks: missing.json", "http.jwt: the file of http.jwt.jwks does not exist. Check missing.json"),
        ("jwks: 'http://login.example/keys'", "expected an https URL"),
        ("jwks: 'file:///etc/passwd'", "expected an https URL"),
        ("jwks: 'https://'", "expected an https URL"),
        ("jwks: tools.py, resource: 'http://tools.example/mcp'", "expected an https URL"),
        ("jwks: tools.py, scopes: ['a\"b']", "http.jwt.scopes[0]"),
        ("scopes: []", "http.jwt.jwks: this key is required"),
    ],
)
def test_jwt_settings_that_cannot_be_used_stop_the_start(tmp_path: Path, more: str, problem: str) -> None:
    (tmp_path / "jwt.yaml").write_text(JWT.format(more=more))
    code, message = fail_to_start(tmp_path, "jwt.yaml", "--http", "127.0.0.1:0")
    assert code == 2
    assert problem in message
