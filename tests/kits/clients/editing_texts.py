"""Strategies for settings files of MCP clients as users write them, with comments, odd white space and all line ends.

The tests of editing insert and remove entries in these texts, and check that everything else stays.
"""

from __future__ import annotations

import json

import tomlkit
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

NAMES = st.sampled_from(["a", "b c", "é", "x.y", "other", '"', "😀", "//"])
ENTRIES = st.fixed_dictionaries(
    {"command": st.sampled_from(["/usr/bin/mcp-bridge", "C:\\Program Files\\mcp-bridge.exe", "/a b/é"])},
    optional={
        "args": st.lists(st.sampled_from(["serve", "", "--flag", "/home/me/my tools.yaml", "${A}", "😀", "\x7f\n"])),
        "env": st.dictionaries(st.sampled_from(["TOKEN", "a b"]), st.sampled_from(["${TOKEN}", "{env:X}"]), max_size=2),
        "enabled": st.booleans(),
        "timeout": st.sampled_from([300, 1.5, -1]),
    },
)
BREAKS = st.sampled_from(["\n", "\r\n"])


@st.composite
def json_texts(draw: DrawFn, *, comments: bool, in_list: bool = False) -> str:
    """JSON with or without servers: in an object or a list, of the user or of a project; or an empty text."""
    before, after = draw(_gaps(comments)), draw(_gaps(comments))
    shape = draw(st.sampled_from(["nothing", "none", "some", "some", "some", "project", "empty", "empty"]))
    if shape == "nothing":
        return before + after
    members = list(draw(_json_members(comments)))
    if shape != "none":
        servers = [] if shape == "empty" else draw(_json_items() if in_list else _json_members(comments))
        inside = draw(_json_objects(comments, servers, "[]" if in_list else "{}"))
        key = '"mcpServers"' if draw(st.booleans()) else '"mcp\\u0053ervers"'
        if shape == "project":
            key, inside = '"projects"', draw(_json_objects(comments, [f'"/a b": {{{key}: {inside}}}']))
        members.insert(draw(st.integers(0, len(members))), f"{key}: {inside}")
    return before + draw(_json_objects(comments, members)) + after


@st.composite
def _json_objects(draw: DrawFn, comments: bool, members: list[str], signs: str = "{}") -> str:
    """Return an object or a list of these members, in some layout."""
    style = draw(st.sampled_from(["wide", "wide", "one line", "dense", "odd"]))
    trailing = "," if comments and members and draw(st.booleans()) else ""
    if style == "odd" or not members:
        first, two, three = draw(_gaps(comments)), draw(_gaps(comments)), draw(_gaps(comments))
        inner = f"{first},{two}".join(members)
        return f"{signs[0]}{three}{inner}{two}{trailing}{first if trailing else ''}{signs[1]}"
    if style != "wide":
        return (
            signs[0] + ("," if style == "dense" else ", ").join(members) + draw(st.sampled_from(["", " "])) + signs[1]
        )
    newline, unit = draw(BREAKS), draw(st.sampled_from(["  ", "    ", "\t"]))
    note = draw(st.sampled_from([" // note", " /* note */", f"{newline}{unit}// note", ""])) if comments else ""
    lines = f",{note}{newline}{unit}".join(members)
    return f"{signs[0]}{newline}{unit}{lines}{trailing}{note}{newline}{signs[1]}"


def _json_items() -> st.SearchStrategy[list[str]]:
    items = ["1", '{"name": "a", "x": [{}]}', '{\n"name":"é"}', "{}", '{"name": ["ours"]}']
    return st.lists(st.sampled_from(items), max_size=3, unique=True)


def _json_members(comments: bool) -> st.SearchStrategy[list[str]]:
    values = [
        "1",
        "-0.5e3",
        '"// no comment, }"',
        '"é😀\\ud83d\\ude00"',
        "{}",
        '{"x": {"y": []}}',
        "null",
        '[1, {"z": ""}]',
    ]
    values += ["[1, /* c */ 2,]", '{ // c\n "x": 1,\r\n\t"y": { /* { */ } }', "/* c */ true // d\n"] if comments else []
    colons = st.sampled_from([":", ": ", " :\t", "\n:\n"] + ([" /* : */: // \n"] if comments else []))
    pairs = st.tuples(NAMES.map(json.dumps), colons, st.sampled_from(values))
    return st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0]).map(
        lambda members: ["".join(member) for member in members]
    )


def _gaps(comments: bool) -> st.SearchStrategy[str]:
    spaces = ["", "", "", " ", "\n", "\r\n", "\t", "\n\n  ", " \r\n\r\n"]
    notes = [
        "// é, {\n",
        "/* 😀 } */",
        " /**/ ",
        "\n  // \r\n",
        " /*\n*/",
        '\n// "x": 1,\n  ',
        "// a\n// b\n\n/* c */ // d\n",
    ]
    return st.sampled_from(spaces + notes if comments else spaces)


@st.composite
def yaml_texts(draw: DrawFn, *, container: str, in_list: bool) -> str:
    """YAML mappings in block style, with comments between their lines, and sometimes with a container of servers."""
    newline, step = draw(BREAKS), draw(st.sampled_from([2, 4]))
    lines = list(draw(_notes(0)))
    names = draw(st.lists(st.sampled_from(["a", "zed", "other", "deep", container]), max_size=4, unique=True))
    for name in names:
        lines += draw(_yaml_container(name, step, in_list=in_list) if name == container else _yaml_values(name, step))
        lines += draw(_notes(0))
    if draw(st.booleans()):
        lines.insert(0, "---")
    text = newline.join(lines)
    return text + draw(st.sampled_from([newline, newline, "", newline * 3]))


@st.composite
def _yaml_container(draw: DrawFn, name: str, step: int, *, in_list: bool) -> list[str]:
    lines = draw(_yaml_items(step, in_list=in_list))
    empty = st.sampled_from(["", " null", " ~", "  # nothing yet", " []" if in_list else " {}  # none"])
    return [name + ":" + draw(st.sampled_from(["", "  # mine"]) if lines else empty), *lines]


@st.composite
def _yaml_items(draw: DrawFn, step: int, *, in_list: bool) -> list[str]:
    lines: list[str] = []
    dash = draw(st.sampled_from([0, 2])) if in_list else 0
    for name in draw(st.lists(st.sampled_from(["a", "é", "x"]), max_size=3, unique=True)):
        if in_list:
            lines += [f"{' ' * dash}- name: {name}", f"{' ' * dash}  command: run # it"]
        else:
            lines += [f"{' ' * step}{name}:{draw(st.sampled_from(['', ' # why']))}", f"{' ' * 2 * step}cmd: 'run'"]
            lines += draw(
                st.sampled_from(
                    [
                        [],
                        [f"{' ' * 2 * step}text: |", f"{' ' * 3 * step}one", "", f"{' ' * 3 * step}# two"],
                        [f"{' ' * 2 * step}text: >-", f"{' ' * 3 * step}one", ""],
                        [f"{' ' * 2 * step}text: |+", f"{' ' * 3 * step}one", "", ""],
                        [f"{' ' * 2 * step}list: [1, 2,", f"{' ' * 3 * step}3]  # so"],
                        [f"{' ' * 2 * step}nothing:"],
                    ]
                )
            )
        lines += draw(_notes(dash if in_list else step))
    return lines


@st.composite
def _yaml_values(draw: DrawFn, name: str, step: int) -> list[str]:
    pad = " " * step
    return draw(
        st.sampled_from(
            [
                [f"{name}: 1"],
                [f"{name}: &anchor {{x: 1}} # flow"],
                [f"{name}:"],
                [f"{name}: |", f"{pad}text: of", "", f"{pad}# two lines"],
                [f"{name}: |+", f"{pad}kept", ""],
                [f"{name}: 'quoted # é😀'"],
                [f"{name}: plain", f"{pad}over two lines"],
                [f"{name}:", "- 1", "-", "  - x: y"],
                [f"{name}:", f"{pad}ours: 1", f"{pad}'b c': [a, b]"],
            ]
        )
    )


def _notes(indent: int) -> st.SearchStrategy[list[str]]:
    pad = " " * indent
    return st.sampled_from([[], [], [f"{pad}# note"], ["", f"{pad}# é: {{"], [""], ["# far out", ""]])


@st.composite
def toml_texts(draw: DrawFn) -> str:
    """TOML with tables of servers and others, with comments and strings that look like tables."""
    newline = draw(BREAKS)
    head = draw(st.lists(st.sampled_from(["# note", "", "a = 1", 's = """', "b.c = 'x' # y"]), unique=True, max_size=4))
    lines = [line if line != 's = """' else f's = """{newline}[mcp_servers.ours]{newline}"""' for line in head]
    tables = ["[mcp_servers.a]", '[mcp_servers."b.c"]', "[other]", "[[many]]", "[mcp_servers.a.env]", "[mcp_servers]"]
    for header in draw(st.lists(st.sampled_from(tables), unique=True, max_size=5)):
        lines += draw(st.sampled_from([[], [""], ["", "# about it"]]))
        lines.append(header + draw(st.sampled_from(["", "  # why"])))
        lines += draw(
            st.sampled_from(
                [
                    [],
                    ["command = 'run'"],
                    ["list = [", "  [1, 2], # x", "  [3],", "]", "", "# end"],
                    [f"text = {tomlkit.item('[mcp_servers.ours]').as_string()}"],
                    ["text = '''", "# no comment", "'''"],
                ]
            )
        )
    return newline.join(lines) + draw(st.sampled_from([newline, "", newline * 2, " ", "# end"]))
