"""A dialect: what the server rewrites in its list of tools, and in their arguments, so that a client accepts them."""

from __future__ import annotations

from typing import NamedTuple


class SchemaDialect(NamedTuple):
    """What is rewritten; by default nothing."""

    inline_references: bool = False
    """References are replaced by what they refer to."""
    flatten_unions: bool = False
    """Unions and conditions at the root become one object with all properties."""
    write_properties: bool = False
    """Objects without `properties` get `properties: {}`."""
    parse_strings: bool = False
    """Arguments that arrive as JSON in a string are parsed."""
    omit_empty: bool = False
    """Optional arguments that arrive as null or as an empty text, and do not accept it, are left out."""
    show_injections: bool = False
    """Tools to whose results policies may add texts have no output schema, and results with such texts no structured
    content."""

    @property
    def is_active(self) -> bool:
        """Whether anything is rewritten."""
        return self != NO_DIALECT

    def __or__(self, other: SchemaDialect) -> SchemaDialect:
        """A dialect that rewrites what either of the two rewrites."""
        return SchemaDialect(*(own or added for own, added in zip(self, other, strict=True)))


NO_DIALECT = SchemaDialect()
