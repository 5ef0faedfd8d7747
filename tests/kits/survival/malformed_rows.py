"""The rows of the table of malformed messages, and valid messages of an era to start from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.kits.constants import ENVELOPE

NOT_JSON, NO_REQUEST, NO_METHOD, BAD_PARAMS, BAD_HEADER, BAD_VERSION = -32700, -32600, -32601, -32602, -32020, -32022
SILENCE, RESULT, FAILED = "silence", "result", "failed"
"""Expected responses that are no error codes: no response, a result, or a result with `isError`."""
LONG = "x" * 1_000_000


@dataclass(frozen=True)
class Row:
    """A message and its expected response: an error code or one of the words above, with the id `number`."""

    name: str
    data: bytes
    expected: int | str
    number: Any = None


@dataclass(frozen=True)
class Era:
    """Makes messages of an era."""

    stateless: bool

    def params(self, **fields: Any) -> dict[str, Any]:
        """Return params with the metadata of the era."""
        return {**fields, "_meta": {**(ENVELOPE if self.stateless else {}), **fields.get("_meta", {})}}

    def request(self, number: Any, method: str, **params: Any) -> dict[str, Any]:
        """Return a valid request."""
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": self.params(**params)}

    def good(self, number: Any = "good") -> dict[str, Any]:
        """Return a request with a guaranteed response."""
        return self.request(number, "tools/list")

    def text(self, number: Any = "good") -> str:
        """Return a request with a guaranteed response as JSON."""
        return json.dumps(self.good(number))

    def call(self, number: Any, arguments: Any, name: Any = "echo") -> dict[str, Any]:
        """Return a tools/call."""
        return self.request(number, "tools/call", name=name, arguments=arguments)


def row(name: str, message: Any, expected: int | str, number: Any = None) -> Row:
    return Row(name, json.dumps(message).encode(), expected, number)
