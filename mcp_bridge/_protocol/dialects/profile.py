"""The vocabulary of client profiles: the kinds of facts about which tools a client accepts.

`table.py` has the facts, `linting.py` a rule for each kind, and `Profile.dialect` derives changes of schemas from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mcp_bridge._protocol.dialects.dialect import SchemaDialect

Level = Literal["error", "warning", "note"]
"""How a client treats a violation.

error: It rejects the tool or the whole list. warning: It degrades the tool, or rejects it with some models. note: It
does neither, but the author of the tool should know.
"""


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact about a client: what `happens` with a tool that violates it, and the `source` that documents this."""

    level: Level
    happens: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NameLength(Fact):
    """The maximum length of a tool's name, with the client's prefix. `{server}` in the prefix is the server's name."""

    most: int
    prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameCharacters(Fact):
    """A regular expression for the whole name of a tool."""

    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCount(Fact):
    """The maximum number of tools of all the client's servers together."""

    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsupportedKeywords(Fact):
    """Keywords without support in an input schema, either at its root or anywhere."""

    words: Sequence[str]
    at: Literal["root", "anywhere"] = "anywhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEnumsOnly(Fact):
    """An `enum` may only contain text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertiesRequired(Fact):
    """An object schema must have `properties`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSize(Fact):
    """The maximum number of characters of text in a result."""

    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredOnly(Fact):
    """If a result has structured content, the model does not see its content blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoQuestions(Fact):
    """The client does not support elicitation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoImages(Fact):
    """The model does not see the images of a result, or sees them late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StringArguments(Fact):
    """Objects and lists in arguments may arrive as JSON in a string."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The known facts about one client. A profile without facts does not mean that the client accepts every tool."""

    name: str
    title: str
    facts: Sequence[Fact] = ()

    @property
    def dialect(self) -> SchemaDialect:
        """The changes for this client. Strings are parsed for every client, because models write them."""
        keywords = [fact for fact in self.facts if isinstance(fact, UnsupportedKeywords)]
        return SchemaDialect(
            inline_references=any("$ref" in fact.words for fact in keywords),
            flatten_unions=any("anyOf" in fact.words and fact.at == "root" for fact in keywords),
            write_properties=any(isinstance(fact, PropertiesRequired) for fact in self.facts),
            parse_strings=True,
            show_injections=any(isinstance(fact, StructuredOnly) for fact in self.facts),
        )
