"""Header: an argument that HTTP clients mirror into a request header (MCP 2026-07-28, server/tools "x-mcp-header")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

X_MCP_HEADER = "x-mcp-header"
"""The keyword of a property's schema whose value names the header."""


@dataclass(frozen=True, slots=True)
class Header:
    """Marks a tool's parameter: `Annotated[str, Header("Region")]` is sent as `Mcp-Param-Region` too.

    Intermediaries can then route by it without reading bodies, and see it, so no secret may be marked. The parameter
    is a `str`, `int`, `bool`, or an enum or `Literal` of these.
    """

    name: str

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        """The parameter's schema with the keyword in it. An enum's stands in place: MCP follows no references."""
        made: dict[str, Any] = handler(core_schema)
        if "$ref" in made and (target := handler.resolve_ref_schema(made)).get("type") != "object":
            made = {word: value for word, value in {**target, **made}.items() if word not in ("$ref", "title")}
        return {**made, X_MCP_HEADER: self.name}
