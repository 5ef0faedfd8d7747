"""Names read like this field's English: functions are verbs, classes are unique nouns, and a name means one thing."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache

import pytest

from tests.kits.paths import KITS, ROOT
from tests.kits.reading import PRONOUNS, find_circles, is_participle, read_files

VERBS = set((KITS / "verbs.txt").read_text(encoding="utf-8").split())
SHARED_CLASSES = {"Message", "Tool", "ToolCall", "ToolError", "ToolResult"}
"""Class names that a seed fixes in more than one vocabulary: Amplifier's, Xaibo's and that of the tool_use API."""


@cache
def nodes() -> list[ast.AST]:
    return [
        node for path in (ROOT / "mcp_bridge").rglob("*.py") for node in ast.walk(ast.parse(path.read_text("utf-8")))
    ]


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in nodes():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__"):
            decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
            if not decorators & {"property", "cached_property", "functools.cached_property", "overload"}:
                yield node.name.lstrip("_"), node


def test_most_functions_start_with_a_verb() -> None:
    names = [name for name, _ in functions()]
    assert sum(name.split("_")[0] in VERBS for name in names) >= 0.55 * len(names)


def test_few_functions_are_bare_participles() -> None:
    names = [name for name, _ in functions()]
    participles = [name for name in names if is_participle(name)]
    assert len(participles) <= 0.02 * len(names), Counter(participles).most_common(20)


def test_a_function_name_means_one_thing() -> None:
    returns = defaultdict(list)
    for name, node in functions():
        returns[name].append(ast.unparse(node.returns) if node.returns else "")
    vague = [name for name, types in returns.items() if len(types) >= 5 and len(set(types)) >= 3]
    assert len(vague) <= 10, sorted(vague)


def test_class_names_are_unique() -> None:
    classes = Counter(node.name for node in nodes() if isinstance(node, ast.ClassDef))
    assert {name for name, count in classes.items() if count > 1} == SHARED_CLASSES


def test_few_local_names_are_participles_or_pronouns() -> None:
    names = [name for file in read_files("mcp_bridge") for name in file.list_local_names()]
    participles = [name for name in names if is_participle(name)]
    pronouns = [name for name in names if name in PRONOUNS]
    assert len(participles) <= 0.025 * len(names), Counter(participles).most_common(20)
    assert len(pronouns) <= 0.01 * len(names), Counter(pronouns).most_common(20)


@pytest.mark.parametrize(("folder", "most"), [("mcp_bridge", 4), ("tests", 6)])
def test_few_words_are_odd(folder: str, most: int) -> None:
    counts = [file.count_odd_words() for file in read_files(folder)]
    assert sum(odd for odd, _ in counts) <= most * sum(words for _, words in counts) / 10_000


def test_no_files_import_each_other() -> None:
    assert find_circles(read_files("mcp_bridge"), "mcp_bridge") == []
