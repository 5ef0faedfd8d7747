"""A dialect consists of changes to the list of tools, and to arguments, for a client.

The setting `dialect` names a client. `Profile.dialect` derives the changes from the facts about it.
"""

from __future__ import annotations

from typing import NamedTuple


class SchemaDialect(NamedTuple):
    """The changes. By default, none is made."""

    inline_references: bool = False
    """References are replaced by their targets."""
    flatten_unions: bool = False
    """Unions and conditions at the root become one object with all properties."""
    write_properties: bool = False
    """Objects without `properties` get `properties: {}`."""
    parse_strings: bool = False
    """Arguments with JSON in a string are parsed."""
    omit_empty: bool = False
    """Optional arguments with null or an empty text are left out if they do not accept it."""
    show_injections: bool = False
    """If policies may add texts to the results of a tool, it has no output schema, and results with such texts have no
    structured content."""

    @property
    def is_active(self) -> bool:
        """Whether anything is rewritten."""
        return self != NO_DIALECT

    def __or__(self, other: SchemaDialect) -> SchemaDialect:
        """Return a dialect with the changes of both."""
        changes = [first or second for first, second in zip(self, other, strict=True)]
        return SchemaDialect(*changes)


NO_DIALECT = SchemaDialect()
