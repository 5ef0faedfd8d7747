"""Strategies for settings files: the valid examples of config/, changed as text, as bytes and as data."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import strategies as st

from mcp_bridge._settings import read_document
from tests.kits.data_changes import change_at, list_paths
from tests.kits.paths import ROOT

CONFIG = ROOT / "config"
LONG = "sK-" + "".join(chr(97 + (7 * n) % 26) for n in range(90))
ENVIRON = {"TOKEN": "hunter2-is-the-secret", "LONG": LONG, "NUMBER": "918273645546", "LINES": "first-se\ncret: [x"}
"""The environment for references in settings. Error messages must not show these values."""
DATA = {path.stem: read_document(path).data for path in [*sorted(CONFIG.glob("*.yaml")), CONFIG / "settings.toml"]}


def write_inline_toml(value: Any) -> str:
    """Return a value as inline TOML. TOML has no null, so the text of a value with null is invalid."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {write_inline_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(write_inline_toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value)


def write_text(data: Any, suffix: str) -> str:
    """Return data as TOML, or else as JSON, which is also YAML."""
    if suffix == "toml" and isinstance(data, dict):
        return "\n".join(f"{json.dumps(key)} = {write_inline_toml(value)}" for key, value in data.items())
    return json.dumps(data, indent=1)


EXAMPLES = {
    "yaml": [path.read_text() for path in sorted(CONFIG.glob("*.yaml"))],
    "json": [write_text(data, "json") for data in DATA.values()],
    "toml": [(CONFIG / "settings.toml").read_text(), *(write_text(data, "toml") for data in DATA.values())],
}
REFERENCES = st.sampled_from(
    ["${TOKEN}", "${LONG}", "${NUMBER}", "${LINES}", "${NONE}", "${NONE:-x}", "$${", "${", "a${TOKEN}b"]
)
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=6),
    REFERENCES,
    st.sampled_from(
        [2**64, 10**320, -1, 0, "", "x" * 5000, "1e999", "10 GiB", "-1s", "\ud800", "\x00", "memory:", ":", "a:b:c"]
    ),
    st.just([])
    | st.just({})
    | st.lists(REFERENCES, max_size=2)
    | st.dictionaries(st.text(max_size=3), REFERENCES, max_size=2),
)
TOKENS = st.one_of(
    st.sampled_from(
        [*":-{}[],#&*!|>%@`\"'=.\\\n\t \r\x00\x85\u2028\ufeff", "\n  ", "- ", "? ", "<<: *a\n", "&a ", "*a", "!!int "]
    ),
    st.sampled_from(
        ["---\n", "...\n", "[[", "]]", '"""', "'''", "\\u", "\\ud800", "0x", "1e999", "nan", "2026-11-21", "[" * 90]
    ),
    REFERENCES,
    st.text(max_size=3),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["cut", "double", "insert", "swap", "line", "end"]), st.floats(0, 1), st.floats(0, 1), TOKENS
    ),
    min_size=1,
    max_size=5,
)


def mutate_text(text: str, steps: list[tuple[str, float, float, str]]) -> str:
    """Return a text with some of its parts removed, duplicated or replaced, and with inserted tokens."""
    for how, begin_share, size_share, token in steps:
        size = len(text)
        start, stop = sorted((int(begin_share * size), min(size, int(begin_share * size) + int(size_share * 12))))
        lines = text.splitlines(keepends=True) or [""]
        match how:
            case "cut":
                text = text[:start] + text[stop:]
            case "double":
                text = text[:stop] + text[start:]
            case "insert":
                text = text[:start] + token + text[start:]
            case "swap":
                text = text[:start] + token + text[stop:]
            case "line":
                text = "".join([*lines, lines[int(begin_share * (len(lines) - 1))]])
            case _:
                text = text[:start]
    return text


@st.composite
def change_example(draw: st.DrawFn) -> Any:
    """Generate the data of an example with one to three members removed, added or replaced."""
    data = draw(st.sampled_from(list(DATA.values())))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list_paths(data)[1:] or [()]))
        value = draw(ODD)
        data = change_at(data, path, draw(st.sampled_from(["put", "add", "drop"])), str(value)[:9], value)
        if not isinstance(data, dict):
            return data
    return data


def generate_files(suffix: str) -> st.SearchStrategy[bytes]:
    """Generate the bytes of settings files of a format. Few of them are valid."""
    texts = st.builds(mutate_text, st.sampled_from(EXAMPLES[suffix]), STEPS)
    raw = texts.map(lambda text: text.encode("utf-8", "surrogatepass"))
    return st.one_of(
        raw,
        change_example().map(lambda data: write_text(data, suffix).encode("utf-8", "surrogatepass")),
        st.builds(
            lambda data, at, piece: data[: int(at * len(data))] + piece + data[int(at * len(data)) :],
            raw,
            st.floats(0, 1),
            st.binary(max_size=4),
        ),
        st.binary(max_size=40),
    )
