"""The words of a client's profile: what is known of what it accepts, and where that is known from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mcp_bridge.dialects.dialect import Dialect

Level = Literal["error", "warning", "note"]
"""A tool or the whole list is rejected; something of it is lost, or rejected with some models; good to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that is known of a client: what happens where it applies, how bad that is, and where it is said."""

    level: Level
    happens: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NameLength(Fact):
    """The most characters of a tool's name, with what the client puts before it; `{server}` is the server's name."""

    most: int
    prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameCharacters(Fact):
    """The characters that a tool's name may have: an expression for all of it."""

    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCount(Fact):
    """The most tools at once, of all servers of the client together."""

    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Keywords(Fact):
    """Keywords that the client does not take in an input schema, at its root alone or anywhere."""

    words: Sequence[str]
    at: Literal["root", "anywhere"] = "anywhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEnums(Fact):
    """Lists of values may have text alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedProperties(Fact):
    """An object has to have `properties`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSize(Fact):
    """The most characters of an answer's text."""

    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredAlone(Fact):
    """Of an answer with structured content, the rest is not shown to the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoQuestions(Fact):
    """Its person cannot be asked (elicitation)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoImages(Fact):
    """Its model does not see the images of an answer, or sees them late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strings(Fact):
    """Objects and lists among the arguments may arrive as JSON in a string."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What is known of one client. Where nothing is known, nothing is said: no fact is no promise."""

    name: str
    title: str
    facts: Sequence[Fact] = ()

    @property
    def dialect(self) -> Dialect:
        """What this client needs rewritten. Arguments are parsed for any: it is models that write them so."""
        keywords = [fact for fact in self.facts if isinstance(fact, Keywords)]
        return Dialect(
            inline_references=any("$ref" in fact.words for fact in keywords),
            flatten_unions=any("anyOf" in fact.words and fact.at == "root" for fact in keywords),
            write_properties=any(isinstance(fact, NamedProperties) for fact in self.facts),
            parse_strings=True,
        )
