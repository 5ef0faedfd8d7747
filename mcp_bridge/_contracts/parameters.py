"""Marks of parameters in `Annotated`: `Depends` for those that the server fills in, `Header` for HTTP headers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp_bridge._contracts.tool import X_MCP_HEADER


@dataclass(frozen=True, slots=True)
class Depends:
    """Marks a parameter, as in `Annotated[Database, Depends(open_database)]`: its value is what the function returns.

    The function is called once per call, before the tool, however many parameters need it. It may be async, and may
    itself have parameters with `Depends` or annotated `CallContext`. If it yields its value, the code after the `yield`
    runs after the tool. Clients do not see the parameter.
    """

    function: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Header:
    """Marks a tool's parameter: HTTP clients send `Annotated[str, Header("Region")]` as `Mcp-Param-Region` too.

    Intermediaries can then route requests without parsing bodies. They also see the value, so never mark a secret. The
    parameter must be a `str`, `int` or `bool`, or an enum or `Literal` of these.
    """

    name: str

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        """Add the keyword to the parameter's schema. The schema of an enum is inlined: MCP follows no references."""
        schema: dict[str, Any] = handler(core_schema)
        if "$ref" in schema and (target := handler.resolve_ref_schema(schema)).get("type") != "object":
            schema = {word: value for word, value in {**target, **schema}.items() if word not in ("$ref", "title")}
        return {**schema, X_MCP_HEADER: self.name}
