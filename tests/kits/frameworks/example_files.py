"""Finds the examples in a clone of FastMCP or the MCP SDK: files and code blocks with a server at module level."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import metadata
from pathlib import Path

SERVER = re.compile(r"^(\w+)(: \w+)? = (FastMCP|MCPServer)\b", re.MULTILINE)
BLOCK = re.compile(r"^(?P<indent>[ \t]*)```python[^\n]*\n(?P<body>.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
EXCLUDED_PATHS = re.compile(r"docs/(v2|v3|python-sdk)/|/i18n/|changelog|updates|/clients?[/_.]|/auth/|oauth")
NEEDS_OTHERS = re.compile(
    r"httpx|requests\.|openapi|from_fastapi|create_proxy|ProxyProvider|aiohttp|pyautogui|subprocess|smtplib|docket"
    r"|task=True|fastmcp_tasks"
)


@dataclass
class Example:
    """An example: its origin, its text, and its outcome."""

    place: str
    text: str
    outcome: str = ""
    details: list[str] = field(default_factory=list)


def find_examples(clone: Path) -> Iterator[Example]:
    """Yield the examples of a clone, without those of older versions, translations, clients and authorization."""
    for path in sorted(clone.rglob("*.*")):
        place = str(path.relative_to(clone))
        if not path.is_file() or EXCLUDED_PATHS.search(f"/{place}"):
            continue
        yield from select_servers(_list_texts(path, place))


def list_readme_examples(package: str) -> list[Example]:
    """Return the examples of the README of an installed package."""
    result = metadata(package)
    # Once importlib_metadata is imported, the description is in a header.
    description = str(result.get("Description") or result.get_payload())
    return list(select_servers(list_blocks(f"README of {package}", description)))


def select_servers(texts: Iterable[tuple[str, str]]) -> Iterator[Example]:
    """Yield an example for each text with a server."""
    for where, text in texts:
        if SERVER.search(text) and "import" in text:
            yield Example(where, text)


def needs_more(example: Example) -> bool:
    """Whether an example needs a network, another program or another package."""
    return NEEDS_OTHERS.search(example.text) is not None


def _list_texts(path: Path, place: str) -> list[tuple[str, str]]:
    if path.suffix == ".py" and place.startswith(("examples/", "docs_src/")):
        return [(place, path.read_text("utf-8", errors="replace"))]
    if path.suffix in (".md", ".mdx") and place.startswith(("docs/", "README")):
        return list_blocks(place, path.read_text("utf-8", errors="replace"))
    return []


def list_blocks(place: str, text: str) -> list[tuple[str, str]]:
    """Return the Python blocks of a page, with their numbers."""
    blocks = []
    for number, result in enumerate(BLOCK.finditer(text), 1):
        lines = [line.removeprefix(result["indent"]) for line in result["body"].splitlines()]
        blocks.append((f"{place}#{number}", "\n".join(lines) + "\n"))
    return blocks
