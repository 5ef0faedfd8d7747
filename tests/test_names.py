"""Names read like this field's English: functions are verbs, classes are unique nouns, and a name means one thing."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache

from tests.kits.paths import KITS, ROOT

VERBS = set((KITS / "verbs.txt").read_text(encoding="utf-8").split())
PARTICIPLE = re.compile(
    r"^(?!feed$|embed$|seed$)[a-z]*(ed|told|shown|found|kept|made|taken|given|known|lent|heard|said|left|done|cut)$"
)
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
    participles = [name for name in names if PARTICIPLE.match(name)]
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
