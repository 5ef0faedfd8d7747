"""A dialect: what is rewritten in a served list, and in the arguments of its clients, so that they can take it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What is rewritten; by default nothing."""

    inline_references: bool = False
    """References are replaced by what they lead to."""
    flatten_unions: bool = False
    """Unions at the root become one object, with words on what goes together."""
    write_properties: bool = False
    """Objects that name no properties say so: `properties: {}`."""
    parse_strings: bool = False
    """Arguments that arrive as JSON in a string are parsed."""

    @property
    def changes(self) -> bool:
        """Whether anything is rewritten."""
        return self.inline_references or self.flatten_unions or self.write_properties or self.parse_strings

    def __or__(self, other: Dialect) -> Dialect:
        """What either rewrites."""
        return Dialect(
            inline_references=self.inline_references or other.inline_references,
            flatten_unions=self.flatten_unions or other.flatten_unions,
            write_properties=self.write_properties or other.write_properties,
            parse_strings=self.parse_strings or other.parse_strings,
        )


NONE = Dialect()
