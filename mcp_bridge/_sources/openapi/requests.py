"""Builds the requests of an operation from the arguments of its tool."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mcp_bridge._runtime.http_client.requests import ApiRequest
from mcp_bridge._sources.openapi.bodies import EncodedBody
from mcp_bridge._sources.openapi.credentials import RequestSecrets
from mcp_bridge._sources.openapi.parameters import Parameter

NO_SECRETS = RequestSecrets()
_VARIABLE = re.compile(r"\{([^{}]+)\}")


class RequestBuilder(NamedTuple):
    """Builds requests. `path` is the template of the path, `accept` the value of that header.

    `write_body` is None for operations without a body.
    """

    method: str
    server: str
    path: str
    parameters: Sequence[Parameter]
    write_body: Callable[[Any], EncodedBody] | None
    accept: str

    def build_http_request(self, arguments: Mapping[str, Any], secrets: RequestSecrets = NO_SECRETS) -> ApiRequest:
        """Build the request for validated arguments. Raises InvalidArguments for values that cannot be sent."""
        segments: dict[str, str] = {}
        query: list[str] = []
        cookies: list[str] = []
        headers = {"accept": self.accept}
        for parameter in self.parameters:
            value = arguments.get(parameter.argument)
            if parameter.location == "path":
                segments[parameter.name] = parameter.write_path(value)
            elif value is None:
                continue
            elif parameter.location == "query":
                query += parameter.write_query(value)
            elif parameter.location == "header":
                headers[parameter.name.lower()] = parameter.write_header(value)
            else:
                cookies += parameter.write_cookie(value)
        if cookies or secrets.cookies:
            headers["cookie"] = "; ".join([*cookies, *secrets.cookies])
        body = arguments.get("body")
        encoded = self.write_body(body) if self.write_body is not None and body is not None else EncodedBody("")
        if encoded.media_type and not encoded.parts:
            headers["content-type"] = encoded.media_type
        return ApiRequest(
            self.method.upper(),
            self.server + _VARIABLE.sub(lambda match: segments[match[1]], self.path.partition("#")[0]),
            "&".join(query),
            headers,
            encoded.content,
            encoded.parts,
            secrets.headers,
            secrets.query,
        )
