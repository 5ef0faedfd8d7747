"""Defines marks for parameters in `Annotated`: `Depends` for values of a function, `Header` for HTTP headers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp_bridge._contracts.tool import X_MCP_HEADER


@dataclass(frozen=True, slots=True)
class Depends:
    """Marks a parameter, as in `Annotated[Database, Depends(open_database)]`. Its value is the result of the function.

    The function is called once per call, before the tool, even for several parameters. It may be async, and may have
    parameters with `Depends` or annotated `CallContext`. If it yields its value, the code after the `yield` runs after
    the tool. Clients do not see the parameter.

    >>> from typing import Annotated
    >>> def open_database():
    ...     yield {"ann": 30}
    >>> def find_age(name: str, database: Annotated[dict, Depends(open_database)]) -> int:
    ...     return database[name]
    """

    function: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Header:
    """Marks a tool's parameter: HTTP clients send `Annotated[str, Header("Region")]` as `Mcp-Param-Region` too.

    Intermediaries can then route requests without parsing bodies. They also see the value, so never mark a secret. The
    parameter must be a `str`, `int` or `bool`, or an enum or `Literal` of these.

    >>> from typing import Annotated
    >>> def list_servers(region: Annotated[str, Header("Region")]) -> list[str]: ...
    """

    name: str

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        """Add the keyword to the parameter's schema.

        pydantic refers to the schema of an enum by `$ref`. It is inlined, because clients look for the keyword without
        following references.
        """
        schema: dict[str, Any] = handler(core_schema)
        if "$ref" in schema:
            target = handler.resolve_ref_schema(schema)
            if target.get("type") != "object":
                schema = target | schema
                del schema["$ref"]
                schema.pop("title", None)
        return {**schema, X_MCP_HEADER: self.name}
