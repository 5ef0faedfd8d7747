"""`uninstall` restores any file, and keeps the changes of others."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.kits.clients.clients_running import COMMAND, ClientHome, make_home
from tests.kits.fuzzing import use_examples

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12).filter(
    lambda name: name not in {"shelf", "mcpServers"}
)
SERVERS = st.dictionaries(
    NAMES,
    st.fixed_dictionaries(
        {"command": st.text(st.characters(codec="utf-8"), max_size=12)},
        optional={"args": st.lists(NAMES, max_size=3), "env": st.dictionaries(NAMES, NAMES, max_size=2)},
    ),
    max_size=4,
)
OTHERS = st.dictionaries(NAMES, st.recursive(st.integers() | st.booleans() | NAMES, st.lists, max_leaves=4), max_size=3)
FORMS = st.sampled_from(
    [
        lambda data: json.dumps(data, indent=2),
        lambda data: json.dumps(data, indent="\t", ensure_ascii=False) + "\n",
        lambda data: json.dumps(data, separators=(",", ":")),
        lambda data: json.dumps(data, indent=4).replace("\n", "\r\n"),
        lambda data: "\n\n" + json.dumps(data) + "  \n",
    ]
)


@contextmanager
def make_temporary_home() -> Iterator[ClientHome]:
    with tempfile.TemporaryDirectory() as folder:
        yield make_home(Path(folder))


@use_examples(30)
@given(servers=st.none() | SERVERS, other_data=OTHERS, form=FORMS)
def test_install_and_uninstall_restore_the_bytes(
    servers: dict[str, Any] | None, other_data: dict[str, Any], form: Any
) -> None:
    data = other_data if servers is None else {**other_data, "mcpServers": servers}
    content = form(data).encode()
    with make_temporary_home() as user:
        path = user.write_file("claude-code", content)
        user.run("install", "claude-code", user.settings)
        now = json.loads(path.read_text(encoding="utf-8"))
        assert now["mcpServers"].pop("shelf")["command"] == str(COMMAND)
        assert now == {**data, "mcpServers": data.get("mcpServers", {})}
        user.run("uninstall", "claude-code")
        assert path.read_bytes() == content


@use_examples(20)
@given(before=SERVERS, after=SERVERS, other_data=OTHERS, form=FORMS, last=st.booleans())
def test_changes_of_the_file_in_between_stay(
    before: dict[str, Any], after: dict[str, Any], other_data: dict[str, Any], form: Any, last: bool
) -> None:
    with make_temporary_home() as user:
        path = user.write_file("claude-code", json.dumps({"mcpServers": before}).encode())
        user.run("install", "claude-code", user.settings)
        ours = {"shelf": json.loads(path.read_text(encoding="utf-8"))["mcpServers"]["shelf"]}
        path.write_bytes(form({**other_data, "mcpServers": {**after, **ours} if last else {**ours, **after}}).encode())
        user.run("uninstall", "claude-code")
        assert json.loads(path.read_bytes()) == {**other_data, "mcpServers": after}
