"""`uninstall` forgets manually removed entries, and reports the remaining work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.clients.clients_running import ClientHome


def list_records(user: ClientHome) -> list[Path]:
    return [*(user.home / ".local").rglob("*.json")]


@pytest.mark.parametrize("name", [["shelf"], []])
@pytest.mark.parametrize("content", [b'{"mcpServers": {"theirs": {"command": "npx"}}}', b"{}", None])
def test_the_record_of_an_entry_that_was_removed_by_hand_is_removed(
    name: list[str], content: bytes | None, user: ClientHome
) -> None:
    user.run("install", "cursor", user.settings)
    path = user.path("cursor")
    if content is not None:
        path.write_bytes(content)
    else:
        path.unlink()
    result = user.run("uninstall", "cursor", *name, "--dry-run")
    assert f"would forget: 'shelf' is no longer in Cursor (user), {path}" in result.stderr
    assert len(list_records(user)) == 1
    assert user.json("uninstall", "cursor", *name)["removed"] == [
        {"name": "shelf", "scope": "user", "path": str(path), "action": "forgotten"}
    ]
    assert list_records(user) == []
    assert path.read_bytes() == content if content is not None else not path.exists()
    user.run("uninstall", "cursor", *name, check=2)


def test_present_entries_are_removed_and_records_of_vanished_ones_too(user: ClientHome) -> None:
    for name in ("one", "two"):
        user.run("install", "cursor", user.settings, "--name", name)
    path = user.path("cursor")
    path.write_text(path.read_text().replace('"one"', '"theirs"').replace("mcp-bridge", "bridge", 1))
    result = user.run("uninstall", "cursor")
    assert "forgotten: 'one'" in result.stderr
    assert "removed: 'two'" in result.stderr
    assert '"theirs"' in path.read_text()
    assert list_records(user) == []


def test_a_record_of_another_scope_is_removed_with_that_scope(user: ClientHome) -> None:
    user.run("install", "cursor", user.settings, "--scope", "project")
    user.path("cursor-project").write_text("{}")
    result = user.run("uninstall", "cursor", "shelf", check=2)
    assert "There is one in: project." in result.stderr
    assert "forgotten: 'shelf'" in user.run("uninstall", "cursor", "--scope", "project").stderr
    assert list_records(user) == []


@pytest.mark.parametrize(
    ("client", "message", "absent_text"),
    [("cursor", "removed", "Switch it on"), ("claude-code", "Start a new session", "approval")],
)
def test_after_a_removal_only_the_remaining_steps_are_shown(
    client: str, message: str, absent_text: str, user: ClientHome
) -> None:
    assert absent_text in user.run("install", client, user.settings).stderr
    result = user.run("uninstall", client)
    assert message in result.stderr
    assert absent_text not in result.stderr
