"""Depends: a parameter that the server fills in, instead of the client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Depends:
    """Marks a parameter, as in `Annotated[Database, Depends(open_database)]`: its value is what the function returns.

    The function is called once per call, before the tool, however many parameters need it. It may be async, and may
    itself have parameters with `Depends` or annotated `CallContext`. If it yields its value, the code after the `yield`
    runs after the tool. Clients do not see the parameter.
    """

    function: Callable[..., Any]
