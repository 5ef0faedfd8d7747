"""`uninstall` forgets what somebody has taken out by hand, and says what is still to be done, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.clients.clients_running import Person, person


@pytest.fixture
def who(tmp_path: Path) -> Person:
    return person(tmp_path)


def records(who: Person) -> list[Path]:
    return [*(who.home / ".local").rglob("*.json")]


@pytest.mark.parametrize("name", [["shelf"], []])
@pytest.mark.parametrize("content", [b'{"mcpServers": {"theirs": {"command": "npx"}}}', b"{}", None])
def test_the_record_of_an_entry_that_was_removed_by_hand_is_removed(
    name: list[str], content: bytes | None, who: Person
) -> None:
    who.run("install", "cursor", who.settings)
    path = who.path("cursor")
    if content is not None:
        path.write_bytes(content)
    else:
        path.unlink()
    result = who.run("uninstall", "cursor", *name, "--dry-run")
    assert f"would forget: 'shelf' is no longer in Cursor (user), {path}" in result.stderr
    assert len(records(who)) == 1
    assert who.json("uninstall", "cursor", *name)["removed"] == [
        {"name": "shelf", "scope": "user", "path": str(path), "action": "forgotten"}
    ]
    assert records(who) == []
    assert path.read_bytes() == content if content is not None else not path.exists()
    who.run("uninstall", "cursor", *name, check=2)


def test_present_entries_are_removed_and_records_of_vanished_ones_too(who: Person) -> None:
    for name in ("one", "two"):
        who.run("install", "cursor", who.settings, "--name", name)
    path = who.path("cursor")
    path.write_text(path.read_text().replace('"one"', '"theirs"').replace("mcp-bridge", "bridge", 1))
    result = who.run("uninstall", "cursor")
    assert "forgotten: 'one'" in result.stderr
    assert "removed: 'two'" in result.stderr
    assert '"theirs"' in path.read_text()
    assert records(who) == []


def test_a_record_of_another_scope_is_removed_with_that_scope(who: Person) -> None:
    who.run("install", "cursor", who.settings, "--scope", "project")
    who.path("cursor-project").write_text("{}")
    result = who.run("uninstall", "cursor", "shelf", check=2)
    assert "There is one in: project." in result.stderr
    assert "forgotten: 'shelf'" in who.run("uninstall", "cursor", "--scope", "project").stderr
    assert records(who) == []


@pytest.mark.parametrize(
    ("client", "said", "not_said"),
    [("cursor", "removed", "Switch it on"), ("claude-code", "Start a new session", "approval")],
)
def test_after_a_removal_only_the_remaining_steps_are_shown(client: str, said: str, not_said: str, who: Person) -> None:
    assert not_said in who.run("install", client, who.settings).stderr
    result = who.run("uninstall", client)
    assert said in result.stderr
    assert not_said not in result.stderr
