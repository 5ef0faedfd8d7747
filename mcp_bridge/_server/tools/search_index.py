"""SearchIndex: a full-text index of tools in memory. It uses the extension FTS5 of SQLite, which ranks by BM25."""

from __future__ import annotations

import re
import sqlite3
import unicodedata
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from mcp_bridge._protocol.wire.tools import WireTool

_RANKING = "bm25(10.0, 5.0, 2.0, 1.0, 3.0)"
"""The weights of a word in the name, the title, the description, the parameters and the tags."""
_MAX_PHRASES = 64
"""The maximum number of phrases that a query becomes."""
_MIN_PREFIX = 4
"""The minimum number of letters of a word that also finds longer words."""
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_LETTERS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Letters of languages that do not separate words, or that join particles to them. Each letter is indexed as a word."""


class SearchIndex:
    """An index of tools by their texts. Words are compared without case, accents and English endings.

    It may be used from any thread, but only by one thread at a time.
    """

    def __init__(self, tools: Iterable[WireTool]) -> None:
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, self._database.close)
        self._database.execute(
            "CREATE VIRTUAL TABLE tools USING fts5(name, title, description, parameters, tags, client_name UNINDEXED,"
            " tokenize='porter unicode61')"
        )
        self._database.execute("INSERT INTO tools(tools, rank) VALUES ('rank', ?)", (_RANKING,))
        self._database.executemany("INSERT INTO tools VALUES (?, ?, ?, ?, ?, ?)", map(_collect_texts, tools))

    def find_names(self, query: str, limit: int) -> list[str]:
        """Return the names of the tools that have any of the query's words, best first."""
        words = re.findall(rf"[{_LETTERS}]+|[^\W{_LETTERS}]+", _split_words(query))
        phrases = [phrase for word in words for phrase in _build_phrases(word)][:_MAX_PHRASES]
        if not phrases:
            return []
        expression = " OR ".join(phrases)
        rows = self._database.execute(
            "SELECT client_name FROM tools WHERE tools MATCH ? ORDER BY rank, client_name LIMIT ?",
            (expression, limit),
        )
        return [name for (name,) in rows]


def _build_phrases(word: str) -> list[str]:
    """Return the expressions of FTS5 to find a word. A long word also finds the words that begin with it."""
    if re.match(f"[{_LETTERS}]", word):
        # Each letter is a word of the index, so each pair of letters is a phrase of two words.
        pairs = [word[start : start + 2] for start in range(len(word) - 1)] or [word]
        return [f'"{" ".join(pair)}"' for pair in pairs]
    phrase = f'"{word}"'
    return [f"{phrase}*"] if len(word) >= _MIN_PREFIX else [phrase]


def _collect_texts(tool: WireTool) -> tuple[str, ...]:
    """Return the row of a tool: its texts as words, and its name for clients."""
    definition = tool.definition
    tags = " ".join(tag for tag in definition.tags if isinstance(tag, str))
    texts = (definition.name, definition.title or "", tool.description, _join_parameters(tool.input_schema), tags)
    split = (re.sub(f"([{_LETTERS}])", r" \1 ", _split_words(str(text))) for text in texts)
    return (*split, tool.name)


def _join_parameters(schema: Mapping[str, Any]) -> str:
    """Return the names, titles and descriptions of the parameters."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return ""
    words: list[str] = []
    for name, parameter in properties.items():
        words.append(name)
        if isinstance(parameter, Mapping):
            texts = (parameter.get("title"), parameter.get("description"))
            words += [text for text in texts if isinstance(text, str)]
    return " ".join(words)


def _split_words(text: str) -> str:
    """Separate the words of names such as `list_open_issues` and `listOpenIssues`."""
    # SQLite accepts neither lone surrogates nor NUL.
    text = text.encode(errors="replace").decode().replace("\0", " ")
    return _CAMEL_CASE.sub(" ", unicodedata.normalize("NFKC", text)).replace("_", " ")
