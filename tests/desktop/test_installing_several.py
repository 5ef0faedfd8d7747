"""Several bridges in one file can be removed in any order, and in reverse order without a trace."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mcp_bridge._desktop.table import CLIENTS
from mcp_bridge._settings.documents import editor
from tests.kits.clients.clients_running import COMMAND, ClientHome, split_case

NAMES = ("one", "two", "three")
EMPTY = {
    "zed": b'// mine\n{\n  "context_servers": { }, // none yet\n}\n',
    "claude-code": b'{"numStartups": 3, "projects": {}}',
    "codex": b'model = "x"',
    "goose": b"GOOSE_MODEL: x\nextensions: {}\n# end\n",
    "continue": b"name: mine\nmcpServers:  # none yet",
}


def move_to_other_project(user: ClientHome) -> ClientHome:
    """Return the same user in another project."""
    project = user.project.with_name("elsewhere")
    project.mkdir()
    return replace(user, project=project)


@pytest.mark.parametrize("case", [*EMPTY, "claude-code-local", "cursor-project"])
def test_a_file_created_by_the_first_installation_is_removed_with_the_last(case: str, user: ClientHome) -> None:
    client, scope = split_case(case)
    for name in ("one", "two"):
        user.run("install", client, user.settings, "--scope", scope, "--name", name)
    for name in ("one", "two"):
        assert name in user.path(case).read_text()
        user.run("uninstall", client, name, "--scope", scope)
    assert not user.path(case).exists()


@pytest.mark.parametrize("case", EMPTY)
def test_removals_in_reverse_order_restore_the_file_byte_for_byte(case: str, user: ClientHome) -> None:
    path = user.write_file(case, EMPTY[case])
    for name in NAMES:
        user.run("install", case, user.settings, "--name", name)
    for name in reversed(NAMES):
        user.run("uninstall", case, name)
    assert path.read_bytes() == EMPTY[case]


@pytest.mark.parametrize("order", [("two", "one", "three"), ("one", "two", "three"), ()], ids=["mixed", "first", "all"])
@pytest.mark.parametrize("case", EMPTY)
def test_removals_in_any_order_leave_at_most_an_empty_container(
    case: str, order: tuple[str, ...], user: ClientHome
) -> None:
    path = user.write_file(case, EMPTY[case])
    for name in NAMES:
        user.run("install", case, user.settings, "--name", name)
    if not order:
        user.run("uninstall", case, "--all")
    for name in order:
        user.run("uninstall", case, name)
    place = CLIENTS[split_case(case)[0]].places[0]
    without = [
        editor.put_entry(place.format, text, place.within, "x", {"command": "x"}, listed=place.listed)
        for text in (path.read_text(), EMPTY[case].decode())
    ]
    assert editor.read_data(place.format, without[0]) == editor.read_data(place.format, without[1])


@pytest.mark.parametrize("first", ["here", "there"])
@pytest.mark.parametrize("content", [None, b"{}", b'{\n  "mcpServers": {}\n}\n'])
def test_two_projects_may_have_local_servers_with_equal_names(
    first: str, content: bytes | None, user: ClientHome
) -> None:
    path = user.write_file("claude-code", content) if content is not None else user.path("claude-code")
    second_home = move_to_other_project(user)
    for item in (user, second_home):
        item.run("install", "claude-code", user.settings, "--scope", "local")
    assert path.read_text().count(f'"{COMMAND}"') == 2
    leaving, staying = (user, second_home) if first == "here" else (second_home, user)
    leaving.run("uninstall", "claude-code", "shelf", "--scope", "local")
    assert path.read_text().count(f'"{COMMAND}"') == 1
    assert f'"{staying.project}"' in path.read_text()
    staying.run("uninstall", "claude-code", "--scope", "local")
    if content is None:
        assert not path.exists()
    else:
        assert str(COMMAND) not in path.read_text()


@pytest.mark.parametrize("order", [("user", "local"), ("local", "user")], ids="-".join)
@pytest.mark.parametrize("content", [None, b"{ }\n", b""])
def test_two_scopes_in_one_file_can_be_removed_in_any_order(
    order: tuple[str, ...], content: bytes | None, user: ClientHome
) -> None:
    path = user.write_file("claude-code", content) if content is not None else user.path("claude-code")
    for scope in ("user", "local"):
        user.run("install", "claude-code", user.settings, "--scope", scope)
    for scope in order:
        user.run("uninstall", "claude-code", "--scope", scope)
    if content is None:
        assert not path.exists()
    elif order == ("local", "user"):
        assert path.read_bytes() == content
    else:
        assert str(COMMAND) not in path.read_text()


def test_concurrent_installations_and_removals_all_succeed(user: ClientHome) -> None:
    case, before = "cursor", b'{"mcpServers": {}}'
    path = user.write_file(case, before)
    names = [f"shelf-{number}" for number in range(4)]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(lambda name: user.run_in_new_process("install", case, user.settings, "--name", name), names))
        assert all(name in path.read_text() for name in names)
        list(pool.map(lambda name: user.run_in_new_process("uninstall", case, name), names))
    assert "shelf" not in path.read_text()
    assert not [*(user.home / ".local").rglob("*.json")]


def test_a_container_that_is_used_by_others_stays(user: ClientHome) -> None:
    path = user.write_file("cursor", b"{}")
    for name in ("one", "two"):
        user.run("install", "cursor", user.settings, "--name", name)
    path.write_bytes(path.read_bytes().replace(b'"mcpServers": {', b'"mcpServers": {\n    "theirs": {},'))
    for name in ("one", "two"):
        user.run("uninstall", "cursor", name)
    assert json.loads(path.read_text()) == {"mcpServers": {"theirs": {}}}
