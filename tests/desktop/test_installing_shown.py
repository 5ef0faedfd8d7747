"""`install` prints only the entry, and writes references in the place of secrets."""

from __future__ import annotations

import json

import pytest

from mcp_bridge._desktop.entries import can_reference_variables
from mcp_bridge._desktop.table import CLIENTS
from tests.desktop.conftest import SECRET
from tests.kits.clients.clients_running import COMMAND, FILES, ClientHome, read_golden_file, split_case

FOREIGN = "not-to-be-shown"
DEFAULTS = [case for case in FILES if CLIENTS[split_case(case)[0]].places[0].scope == split_case(case)[1]]
"""The cases of the default scope of each client."""


@pytest.mark.parametrize("case", DEFAULTS)
def test_secrets_are_references_and_their_values_are_nowhere(case: str, user_with_secret: ClientHome) -> None:
    client, scope = split_case(case)
    answers = [
        user_with_secret.run("install", client, user_with_secret.settings, "--scope", scope, *more)
        for more in (["--dry-run"], ["--print"], [], ["--json"])
    ]
    text = user_with_secret.path(case).read_text()
    output = "".join(answer.stdout + answer.stderr for answer in answers)
    assert ("SHELF_KEY" in text) == can_reference_variables(CLIENTS[client])
    assert "SHELF_KEY" in output
    everything = [path.read_bytes() for path in user_with_secret.home.rglob("*") if path.is_file()]
    assert SECRET not in output + text
    assert not any(SECRET.encode() in content for content in everything)


def test_settings_are_installed_also_where_their_variables_are_not_set(user_with_secret: ClientHome) -> None:
    user_with_secret.environ.clear()
    result = user_with_secret.run("install", "claude-code", user_with_secret.settings)
    assert "the settings were not fully checked, because these variables are not set: SHELF_KEY" in result.stderr
    assert '"SHELF_KEY": "${SHELF_KEY}"' in user_with_secret.path("claude-code").read_text()


@pytest.mark.parametrize(("name", "advice"), [("claude-desktop", "export mcpb"), ("zed", "login shell")])
def test_for_a_client_without_references_the_alternative_is_shown(
    name: str, advice: str, user_with_secret: ClientHome
) -> None:
    result = user_with_secret.run("install", name, user_with_secret.settings)
    assert "SHELF_KEY" in result.stderr
    assert advice in result.stderr


@pytest.mark.parametrize(
    ("name", "option"), [("claude-desktop", "--print"), ("lm-studio", "--print"), ("lm-studio", "--link")]
)
def test_a_dry_run_warns_of_missing_secrets_too(name: str, option: str, user_with_secret: ClientHome) -> None:
    result = user_with_secret.run("install", name, user_with_secret.settings, option)
    assert "SHELF_KEY. " in result.stderr
    assert "will not start" in result.stderr
    assert "SHELF_KEY" in user_with_secret.json("install", name, user_with_secret.settings, option)["notes"][0]


@pytest.mark.parametrize("case", ["cursor", "cursor-project", "zed", "goose", "codex", "opencode", "claude-code"])
def test_a_dry_run_shows_the_edit_and_no_neighbour(case: str, user: ClientHome) -> None:
    client, scope = split_case(case)
    before = read_golden_file(case, "before", user)
    path = user.write_file(case, before)
    files = list(user.files())
    result = user.run("install", client, user.settings, "--scope", scope, "--dry-run")
    assert f"+++ {path}" in result.stdout
    assert str(COMMAND) in result.stdout
    for word in (FOREIGN, "npx", "Authorization", "https://"):
        assert word not in result.stdout + result.stderr
    assert path.read_bytes() == before
    assert list(user.files()) == files
    user.run("install", client, user.settings, "--scope", scope)
    result = user.run("uninstall", client, "--scope", scope, "--dry-run")
    assert str(COMMAND) in result.stdout
    assert FOREIGN not in result.stdout + result.stderr
    assert path.read_bytes() == read_golden_file(case, "after", user)


def test_a_dry_run_shows_no_secret_that_the_user_added_to_the_entry(user: ClientHome) -> None:
    path = user.path("cursor")
    user.run("install", "cursor", user.settings)
    data = json.loads(path.read_text())
    data["mcpServers"]["shelf"] |= {"env": {"A": FOREIGN}, "command": "/old/bin/mcp-bridge"}
    path.write_text(json.dumps(data, indent=2))
    update = user.run("install", "cursor", user.settings, "--dry-run")
    assert "would update" in update.stderr
    removal = user.run("uninstall", "cursor", "--dry-run")
    assert "/old/bin/mcp-bridge" in removal.stdout
    assert FOREIGN not in update.stdout + removal.stdout
    file = user.project / "tools.py"
    replacement = user.run("install", "cursor", file, "--name", "shelf", "--force", "--dry-run", "--json")
    assert FOREIGN not in replacement.stdout


@pytest.mark.parametrize("case", ["cursor", "claude-code-local", "zed", "goose", "codex", "opencode", "continue"])
def test_the_snippet_is_the_content_of_a_new_file(case: str, user: ClientHome) -> None:
    client, scope = split_case(case)
    output = user.run("install", client, user.settings, "--scope", scope, "--print")
    assert str(user.path(case)) in output.stderr
    assert not user.path(case).exists()
    user.run("install", client, user.settings, "--scope", scope)
    assert user.path(case).read_text().endswith(output.stdout)
