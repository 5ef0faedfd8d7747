"""How the code reads: figures for local names, docstrings, comments and dense statements, printed by `make check`.

The figures are a mirror, not the aim. tests/test_names.py holds the figures that a single name or import can break.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.kits.paths import ROOT

PARTICIPLE = re.compile(
    r"^_?(?!feed$|embed$|seed$|speed$)[a-z]*"
    r"(ed|told|shown|found|kept|made|taken|given|known|heard|said|left|done|held|sent|chosen|seen|gone)$"
)
PRONOUNS = {"each", "one", "own", "rest", "other", "others", "same", "whole", "part", "thing", "way", "turn", "kind"}
ODD_WORDS = {
    *("told", "tell", "tells", "hear", "heard", "said", "says", "nobody", "somebody", "anybody", "whoever"),
    *("mend", "person", "persons", "refuse", "refused", "refuses", "stranger", "strangers", "parked", "stands"),
}
RELATIVES = {"that", "which", "whose", "what", "whom"}
NOT_COMMENTS = ("type:", "noqa", "fmt:", "pragma", "pyright")


class SourceFile:
    """One Python file: its text, its syntax tree, and every node of the tree."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = path.read_text("utf-8")
        self.nodes = list(ast.walk(ast.parse(self.text)))

    def list_local_names(self) -> Iterator[str]:
        """Yield each parameter, and the name of each assignment."""
        for node in self.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.arg):
                yield node.arg

    def list_docstrings(self) -> Iterator[str]:
        """Yield the docstrings of the module, its classes and its functions."""
        for node in self.nodes:
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node)
                if docstring:
                    yield docstring

    def count_comments(self) -> tuple[int, int]:
        """Return the number of comments, and how many of them are behind code."""
        lines = self.text.split("\n")
        comments = behind_code = 0
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type == tokenize.COMMENT and not token.string.lstrip("# ").startswith(NOT_COMMENTS):
                comments += 1
                behind_code += not lines[token.start[0] - 1].lstrip().startswith("#")
        return comments, behind_code

    def count_odd_words(self) -> tuple[int, int]:
        """Return the number of odd words in names and prose, and the number of all words."""
        words = re.findall(r"[a-z]+", self.text.replace("_", " ").lower())
        return sum(word in ODD_WORDS for word in words), len(words)


def read_files(folder: str) -> list[SourceFile]:
    """Return the Python files of a folder of the project."""
    return [SourceFile(path) for path in sorted((ROOT / folder).rglob("*.py"))]


def find_circles(files: list[SourceFile], folder: str) -> list[set[str]]:
    """Return the groups of modules that import each other; late imports and imports for types count."""
    modules = {}
    for file in files:
        name = ".".join(file.path.relative_to(ROOT).with_suffix("").parts)
        modules[name.removesuffix(".__init__")] = file
    imports: dict[str, set[str]] = {}
    for name, file in modules.items():
        targets = set()
        for node in file.nodes:
            if isinstance(node, ast.ImportFrom) and not node.level and node.module:
                targets |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
        imports[name] = set()
        for target in targets:
            while target and target not in modules:
                target = target.rpartition(".")[0]
            if target.startswith(folder):
                imports[name].add(target)
        imports[name].discard(name)
    reachable = {name: _find_reachable(imports, name) for name in modules}
    circles = {
        frozenset(neighbour for neighbour in reachable[name] if name in reachable[neighbour]) for name in modules
    }
    return [set(circle) for circle in circles if circle]


def _find_reachable(imports: dict[str, set[str]], start: str) -> set[str]:
    reachable: set[str] = set()
    waiting = list(imports[start])
    while waiting:
        name = waiting.pop()
        if name not in reachable:
            reachable.add(name)
            waiting += imports[name]
    return reachable


def measure(files: list[SourceFile]) -> dict[str, float]:
    """Return the figures of some files."""
    nodes = Counter(type(node) for file in files for node in file.nodes)
    names = [name for file in files for name in file.list_local_names()]
    words = Counter[str]()
    for file in files:
        for docstring in file.list_docstrings():
            words.update(re.findall(r"[a-z']+", docstring.lower()))
    relatives = sum(words[word] for word in RELATIVES)
    comments = [file.count_comments() for file in files]
    odd_words = [file.count_odd_words() for file in files]
    lines = sum(file.text.count("\n") for file in files)
    comprehensions = sum(nodes[node_type] for node_type in (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
    all_comments = sum(count for count, _ in comments)
    return {
        "lines": lines,
        "local names that are participles, %": 100 * sum(map(is_participle, names)) / len(names),
        "local names that are pronouns, %": 100 * sum(name in PRONOUNS for name in names) / len(names),
        "that/which/whose/what per 10,000 words of docstrings": 1e4 * relatives / words.total(),
        "comments per 100 lines": 100 * all_comments / lines,
        "comments behind code, %": 100 * sum(behind for _, behind in comments) / max(1, all_comments),
        "ternaries per 1,000 lines": 1000 * nodes[ast.IfExp] / lines,
        "comprehensions per 1,000 lines": 1000 * comprehensions / lines,
        "star-unpacking per 1,000 lines": 1000 * nodes[ast.Starred] / lines,
        "walrus per 1,000 lines": 1000 * nodes[ast.NamedExpr] / lines,
        "odd words per 10,000": 1e4 * sum(odd for odd, _ in odd_words) / sum(total for _, total in odd_words),
    }


def is_participle(name: str) -> bool:
    """Whether a name is a bare participle, such as `found`."""
    return PARTICIPLE.match(name) is not None


def main(folders: list[str]) -> None:
    """Print the figures of each folder in a column."""
    columns = [measure(read_files(folder)) for folder in folders]
    print(f"{'':55}" + "".join(f"{folder:>12}" for folder in folders))
    for row in columns[0]:
        print(f"{row:55}" + "".join(f"{column[row]:>12,.1f}" for column in columns))


if __name__ == "__main__":
    main(sys.argv[1:] or ["mcp_bridge", "tests"])
