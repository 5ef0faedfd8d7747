"""An installation keeps every other byte of a client's file, with and without --force."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from tests.kits.clients.clients_running import make_home
from tests.kits.clients.editing_texts import json_texts, toml_texts, yaml_texts
from tests.kits.fuzzing import use_examples

TEXTS = st.one_of(
    st.tuples(st.just("claude-code"), json_texts(comments=False)),
    st.tuples(st.just("cursor"), json_texts(comments=True)),
    st.tuples(st.just("gemini-cli"), json_texts(comments=True)),
    st.tuples(st.just("codex"), toml_texts()),
    st.tuples(st.just("goose"), yaml_texts(container="extensions", in_list=False)),
    st.tuples(st.just("continue"), yaml_texts(container="mcpServers", in_list=True)),
)
BOMS = st.sampled_from([b"", b"", b"\xef\xbb\xbf"])
SPACE_AND_BRACKETS = re.compile(r"[\s{}\[\]~]|null")
"""What an edit may move: the brackets of an empty container, and the space in them."""


def is_kept(before: str, after: str) -> bool:
    """Whether nothing was lost: the characters of the one are in the other, in their order."""
    remainder = iter(SPACE_AND_BRACKETS.sub("", after))
    return all(char in remainder for char in SPACE_AND_BRACKETS.sub("", before))


@use_examples(60)
@given(case=TEXTS, bom=BOMS)
@example(case=("continue", "\r\n"), bom=b"")
def test_an_installation_keeps_every_other_byte(case: tuple[str, str], bom: bytes) -> None:
    client, text = case
    before = bom + text.encode()
    with tempfile.TemporaryDirectory() as folder:
        user = make_home(Path(folder))
        path = user.write_file(client, before)
        result = user.run("install", client, user.settings, check=None)
        after = path.read_bytes()
        if result.returncode:
            assert after == before
            return
        assert after.startswith(bom)
        assert is_kept(before.decode(), after.decode())
        assert after.count(b"\r\n") >= before.count(b"\r\n")
        file = user.project / "tools.py"
        user.run("install", client, file, "--name", "shelf", "--force")
        assert str(file).encode() in path.read_bytes()
        user.run("uninstall", client, "shelf")
        assert path.read_bytes() == after
        user.run("uninstall", client, "shelf")
        assert is_kept(before.decode(), path.read_text(encoding="utf-8"))
