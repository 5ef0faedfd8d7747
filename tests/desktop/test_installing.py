"""`install` changes one entry of a client's file, and `uninstall` restores the file byte for byte."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.kits.clients.clients_running import COMMAND, FILES, ClientHome, read_golden_file, split_case

EXAMPLES = ("cursor", "zed", "goose", "codex", "continue")
"""A client of each format and form."""
FOREIGN = "not-to-be-shown"


def list_backups(path: Path, user: ClientHome) -> list[Path]:
    """Return the backups of a file. They have its path in their names."""
    name = str(path.resolve()).strip("/").replace("/", "%")
    return sorted((user.home / ".local/state/mcp-bridge/backups").glob(f"{name}.*"))


def use_crlf(content: bytes) -> bytes:
    return content.replace(b"\n", b"\r\n")


@pytest.mark.parametrize(
    ("case", "form"), [*((case, "as it is") for case in FILES), *((case, "crlf") for case in EXAMPLES)]
)
def test_an_entry_is_installed_and_removed_without_changing_another_byte(
    case: str, form: str, user: ClientHome
) -> None:
    spelled = use_crlf if form == "crlf" else bytes
    client, scope = split_case(case)
    before, after = spelled(read_golden_file(case, "before", user)), spelled(read_golden_file(case, "after", user))
    path = user.write_file(case, before)
    user.run("install", client, user.settings, "--scope", scope)
    assert path.read_bytes().decode() == after.decode()
    (backup,) = list_backups(path, user)
    assert backup.read_bytes() == before
    user.run("uninstall", client, "--scope", scope)
    assert path.read_bytes().decode() == before.decode()


def test_the_command_in_a_process_does_the_same(user: ClientHome) -> None:
    case = "goose"
    before = read_golden_file(case, "before", user)
    path = user.write_file(case, before)
    assert "installed: 'shelf'" in user.run_in_new_process("install", case, user.settings).stderr
    assert path.read_bytes() == read_golden_file(case, "after", user)
    assert "removed: 'shelf'" in user.run_in_new_process("uninstall", case).stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize("case", FILES)
def test_a_missing_file_is_created_and_removed_again(case: str, user: ClientHome) -> None:
    client, scope = split_case(case)
    user.run("install", client, user.settings, "--scope", scope)
    path = user.path(case)
    assert str(COMMAND) in path.read_text()
    assert str(user.settings) in path.read_text()
    user.run("uninstall", client, "--scope", scope)
    assert not path.exists()


@pytest.mark.parametrize(
    ("case", "content"),
    [*((case, b"") for case in EXAMPLES), ("cursor", b"\n"), ("cursor", b"\xef\xbb\xbf"), ("goose", b"\n")],
)
def test_an_empty_file_stays_empty_after_the_removal(case: str, content: bytes, user: ClientHome) -> None:
    path = user.write_file(case, content)
    user.run("install", case, user.settings)
    assert str(COMMAND).encode() in path.read_bytes()
    user.run("uninstall", case)
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [None, b"", b"\n\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(("case", "line"), [("continue", "schema: v1\n"), ("librechat-project", "version: 1.3.1\n")])
def test_a_new_or_empty_file_gets_what_the_client_requires_in_it(
    case: str, line: str, content: bytes | None, user: ClientHome
) -> None:
    client, scope = split_case(case)
    path = user.path(case)
    if content is not None:
        user.write_file(case, content)
    user.run("install", client, user.settings, "--scope", scope)
    assert line in path.read_text(encoding="utf-8")
    user.run("uninstall", client, "--scope", scope)
    assert (path.read_bytes() if path.exists() else None) == content


@pytest.mark.parametrize("case", ["cursor", "goose", "codex"])
def test_a_byte_order_mark_stays(case: str, user: ClientHome) -> None:
    before = b"\xef\xbb\xbf" + read_golden_file(case, "before", user)
    path = user.write_file(case, before)
    user.run("install", case, user.settings)
    assert path.read_bytes() == b"\xef\xbb\xbf" + read_golden_file(case, "after", user)
    user.run("uninstall", case)
    assert path.read_bytes() == before


@pytest.mark.parametrize("case", ["cursor", "continue"])
def test_a_second_installation_reports_this_and_writes_nothing(case: str, user: ClientHome) -> None:
    path = user.write_file(case, read_golden_file(case, "before", user))
    user.run("install", case, user.settings)
    (backup,) = list_backups(path, user)
    first = path.stat()
    result = user.run("install", case, user.settings)
    assert "already installed" in result.stderr
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (first.st_mtime_ns, first.st_ino)
    assert list_backups(path, user) == [backup]


@pytest.mark.parametrize("case", EXAMPLES)
def test_another_command_for_the_same_settings_is_an_update(case: str, user: ClientHome) -> None:
    before = read_golden_file(case, "before", user)
    path = user.write_file(case, before)
    user.run("install", case, user.settings)
    path.write_bytes(path.read_bytes().replace(str(COMMAND).encode(), b"/old/bin/mcp-bridge"))
    result = user.run("install", case, user.settings)
    assert "updated: 'shelf'" in result.stderr
    assert path.read_bytes() == read_golden_file(case, "after", user)
    user.run("uninstall", case)
    assert path.read_bytes() == before


def test_additions_of_the_user_to_the_entry_stay_in_an_update(user_with_secret: ClientHome) -> None:
    user_with_secret.run("install", "cursor", user_with_secret.settings)
    path = user_with_secret.path("cursor")
    data = json.loads(path.read_text())
    data["mcpServers"]["shelf"] |= {"disabled": True}
    data["mcpServers"]["shelf"]["env"] |= {"MY_OWN": "mine"}
    path.write_text(json.dumps(data).replace(str(COMMAND), "/old/bin/mcp-bridge"))
    user_with_secret.settings.write_text("name: shelf\nsources: [{type: python, path: tools.py}]\n")
    user_with_secret.run("install", "cursor", user_with_secret.settings)
    assert json.loads(path.read_text())["mcpServers"]["shelf"] == {
        "command": str(COMMAND),
        "args": ["serve", str(user_with_secret.settings)],
        "env": {"MY_OWN": "mine"},
        "disabled": True,
    }
    records = "".join(path.read_text() for path in (user_with_secret.home / ".local").rglob("*.json"))
    assert "MY_OWN" not in records


@pytest.mark.parametrize("case", ["claude-code", "zed", "goose", "codex", "continue"])
def test_another_server_with_this_name_is_not_changed(case: str, user: ClientHome) -> None:
    before = read_golden_file(case, "before", user)
    path = user.write_file(case, before)
    result = user.run("install", case, user.settings, "--name", "files", check=2)
    assert f"{path}: " in result.stderr
    assert "another server named 'files', which starts npx" in result.stderr
    assert "--name" in result.stderr
    assert "--force" in result.stderr
    assert path.read_bytes() == before
    result = user.run("uninstall", case, "files", check=2)
    assert "is not a bridge" in result.stderr
    assert path.read_bytes() == before
    user.run("install", case, user.settings, "--name", "files", "--force")
    assert b"npx" not in path.read_bytes()
    assert str(COMMAND).encode() in path.read_bytes()


@pytest.mark.parametrize(
    ("case", "content"),
    [
        ("cursor", b'{"mcpServers": {"shelf": "https://theirs"}}'),
        ("zed", b'{"context_servers": {"shelf": null}}'),
        ("goose", b"extensions:\n  shelf: off\n"),
        ("codex", b"[mcp_servers]\nshelf = 1\n"),
    ],
)
def test_a_value_with_this_name_that_is_no_server_is_not_changed(case: str, content: bytes, user: ClientHome) -> None:
    path = user.write_file(case, content)
    result = user.run("install", case, user.settings, check=2)
    assert "another server named 'shelf'" in result.stderr
    assert path.read_bytes() == content


@pytest.mark.parametrize("case", EXAMPLES)
def test_changes_of_others_in_between_stay(case: str, user: ClientHome) -> None:
    before = read_golden_file(case, "before", user)
    path = user.write_file(case, before)
    user.run("install", case, user.settings)
    content = path.read_bytes()
    assert b"npx" in content
    path.write_bytes(content.replace(b"npx", b"bunx"))
    user.run("uninstall", case)
    assert path.read_bytes() == before.replace(b"npx", b"bunx")


@pytest.mark.parametrize("case", EXAMPLES)
def test_an_entry_without_a_record_can_be_removed(case: str, user: ClientHome) -> None:
    before = read_golden_file(case, "before", user)
    path = user.write_file(case, before)
    user.run("install", case, user.settings)
    shutil.rmtree(user.home / ".local")
    user.run("uninstall", case)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("case", "content", "why"),
    [
        ("claude-desktop", b'{"mcpServers": {', "1"),
        ("claude-desktop", b'{\n  // mine\n  "mcpServers": {}\n}', "comment"),
        ("claude-code", b'{"mcpServers": []}', "mcpServers"),
        ("cursor", b"\xff\xfe\x00", "UTF"),
        ("cursor", b'{"mcpServers": {}, "mcpServers": {}}', "mcpServers"),
        ("codex", b"[mcp_servers\n", "1"),
        ("goose", b"extensions: [\n", "2"),
        ("continue", b"mcpServers: {files: {command: x}}\n", "mcpServers"),
    ],
)
def test_for_a_file_that_cannot_be_edited_the_snippet_is_shown(
    case: str, content: bytes, why: str, user: ClientHome
) -> None:
    path = user.write_file(case, content)
    result = user.run("install", case, user.settings, check=1)
    assert str(path) in result.stderr
    assert why in result.stderr
    assert str(COMMAND) in result.stdout
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]
    answer = user.json("install", case, user.settings, check=1)
    assert answer["action"] == "left alone"
    assert answer["snippet"] == result.stdout


def test_a_read_only_file_stays_as_it_is(user: ClientHome) -> None:
    path = user.write_file("cursor", b"{}")
    path.chmod(0o400)
    result = user.run("install", "cursor", user.settings, check=1)
    assert "read-only" in result.stderr
    assert str(COMMAND) in result.stdout
    assert path.read_bytes() == b"{}"
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_in_the_place_of_the_file_is_an_error(user: ClientHome) -> None:
    user.path("cursor").mkdir(parents=True)
    result = user.run("install", "cursor", user.settings, check=1)
    assert str(user.path("cursor")) in result.stderr
    assert "Move it out of the way." in result.stderr
    assert "Add this to" not in result.stderr
    assert not result.stdout
    assert user.json("install", "cursor", user.settings, check=1)["snippet"] is None


def test_a_link_stays_a_link_and_its_target_keeps_its_mode(user: ClientHome) -> None:
    target = user.home / "dotfiles.json"
    target.write_bytes(read_golden_file("cursor", "before", user))
    target.chmod(0o640)
    path = user.path("cursor")
    path.parent.mkdir()
    path.symlink_to(target)
    user.run("install", "cursor", user.settings)
    assert path.is_symlink()
    assert target.read_bytes() == read_golden_file("cursor", "after", user)
    assert target.stat().st_mode & 0o777 == 0o640
    user.run("uninstall", "cursor")
    assert path.is_symlink()
    assert target.read_bytes() == read_golden_file("cursor", "before", user)


def test_a_link_that_leads_nowhere_is_an_error(user: ClientHome) -> None:
    path = user.path("cursor")
    path.parent.mkdir()
    path.symlink_to(user.home / "nothing" / "here.json")
    result = user.run("install", "cursor", user.settings, check=1)
    assert str(path) in result.stderr
    assert path.is_symlink()
