"""Tokens are in the keyring of the system, if it has a usable one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kits.cli.cli_running import CommandResult, run_in_interpreter
from tests.kits.upstream.oauth_server import OAuthServer, run_oauth_server

ROOT = Path(__file__).parents[3]
BROWSER = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read()"
KEYRING = "tests.kits.upstream.file_keyring.FileKeyring"


class Desk:
    """A user with settings, a browser that signs in immediately, and a keyring. Each command is a process."""

    def __init__(self, folder: Path, server: OAuthServer, transport: str = "http") -> None:
        self.folder, self.server = folder, server
        self.url = f"{server.base}/{'sse' if transport == 'sse' else 'mcp'}"
        source = {"type": "mcp", "name": "tickets", "url": self.url, "transport": transport, "auth": "oauth"}
        (folder / "gateway.json").write_text(json.dumps({"sources": [source]}))
        (folder / "browser.py").write_text(BROWSER)
        (folder / "vault").mkdir()
        self.vault = folder / "vault" / "entries.json"
        self.env = {
            "XDG_STATE_HOME": str(folder / "state"),
            "BROWSER": f"{sys.executable} {folder}/browser.py %s",
            "PYTHONPATH": str(ROOT),
            "PYTHON_KEYRING_BACKEND": KEYRING,
            "FILE_KEYRING": str(self.vault),
        }

    def sign_in(self, *options: str) -> CommandResult:
        return run_in_interpreter("login", "tickets", "gateway.json", *options, cwd=self.folder, env=self.env)

    def call(self) -> CommandResult:
        return run_in_interpreter("call", "gateway.json", "tickets__read", cwd=self.folder, env=self.env)

    def read_vault(self) -> dict[str, Any]:
        entries = json.loads(self.vault.read_text()) if self.vault.exists() else {}
        return {name: json.loads(text) for name, text in entries.items()}

    def list_files(self) -> list[Path]:
        return list((self.folder / "state/mcp-bridge/oauth").glob("*"))


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with run_oauth_server() as server:
        yield server


def test_tokens_are_in_the_keyring_and_in_no_file(tmp_path: Path, server: OAuthServer) -> None:
    desk = Desk(tmp_path, server)
    process = desk.sign_in()
    assert (process.code, process.out) == (0, "signed in to tickets; the tokens are in the keyring of the system\n"), (
        process.err
    )
    assert desk.read_vault()[f"mcp-bridge/{desk.url}"]["tokens"]["access_token"] == server.issued[-1]
    assert desk.list_files() == []
    assert "Bearer" in desk.call().out
    assert server.authorizations[-1] == f"Bearer {server.issued[-1]}"


def test_a_refreshed_token_replaces_the_one_in_the_keyring(tmp_path: Path, server: OAuthServer) -> None:
    desk = Desk(tmp_path, server)
    server.lifetime = 1
    assert desk.sign_in().code == 0
    server.lifetime = 3600
    assert "Bearer" in desk.call().out
    assert server.refreshes == 1
    assert desk.read_vault()[f"mcp-bridge/{desk.url}"]["tokens"]["access_token"] == server.issued[-1]
    assert desk.list_files() == []


def test_the_user_can_choose_the_file_and_the_keyring_again(tmp_path: Path, server: OAuthServer) -> None:
    desk = Desk(tmp_path, server)
    process = desk.sign_in("--no-keyring")
    (file,) = desk.list_files()
    assert process.out == f"signed in to tickets; the tokens are in the file {file}\n"
    assert desk.read_vault() == {}
    assert "Bearer" in desk.call().out
    assert desk.sign_in().code == 0
    assert desk.list_files() == []
    assert "Bearer" in desk.call().out


@pytest.mark.parametrize("backend", ["keyring.backends.fail.Keyring", "keyring.backends.null.Keyring", KEYRING])
def test_a_keyring_that_cannot_be_used_is_replaced_by_the_file(
    tmp_path: Path, server: OAuthServer, backend: str
) -> None:
    desk = Desk(tmp_path, server)
    desk.env["PYTHON_KEYRING_BACKEND"] = backend
    # Without its folder, the last keyring is locked.
    desk.vault.parent.rmdir()
    process = desk.sign_in()
    (file,) = desk.list_files()
    assert process.out == f"signed in to tickets; the tokens are in the file {file}\n"
    assert "planted" not in process.err
    assert "Bearer" in desk.call().out


def test_no_output_has_a_token(tmp_path: Path, server: OAuthServer) -> None:
    desk = Desk(tmp_path, server)
    texts = [desk.sign_in()]
    for words in (("list",), ("doctor",), ("validate",)):
        texts.append(run_in_interpreter(*words, "gateway.json", cwd=tmp_path, env=desk.env))
    for secret in (*server.issued, "again-77"):
        assert secret not in "".join(command.out + command.err for command in texts)


@pytest.mark.parametrize("options", [(), ("--no-keyring",)])
def test_servers_of_the_older_transport_are_signed_in_to_in_the_same_way(
    tmp_path: Path, server: OAuthServer, options: tuple[str, ...]
) -> None:
    desk = Desk(tmp_path, server, "sse")
    server.lifetime = 1
    process = desk.sign_in(*options)
    assert process.code == 0, process.err
    server.lifetime = 3600
    process = desk.call()
    assert "Bearer" in process.out, process.err
    assert server.refreshes == 1
    assert server.authorizations[-1] == f"Bearer {server.issued[-1]}"
