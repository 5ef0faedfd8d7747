"""Builds HTTP requests from the arguments of a tool and the credentials of the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mcp_bridge._runtime.http_client.requests import ApiRequest
from mcp_bridge._sources.openapi.bodies import EncodedBody
from mcp_bridge._sources.openapi.credentials import RequestSecrets
from mcp_bridge._sources.openapi.document import VARIABLE
from mcp_bridge._sources.openapi.parameters import Parameter

NO_SECRETS = RequestSecrets()


class RequestBuilder(NamedTuple):
    """Builds the requests of one operation.

    Attributes:
        server: The URL of the server, without a slash at its end.
        path: The template of the path.
        write_body: Encodes the body; None for operations without one.
        accept: The value of the header Accept.
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
            headers["cookie"] = "; ".join(cookies + list(secrets.cookies))
        body = arguments.get("body")
        encoded_body = EncodedBody("")
        if self.write_body is not None and body is not None:
            encoded_body = self.write_body(body)
        if encoded_body.media_type and not encoded_body.parts:
            headers["content-type"] = encoded_body.media_type
        # Some documents give operations with the same path different fragments, which are not sent.
        path = VARIABLE.sub(lambda match: segments[match[1]], self.path.partition("#")[0])
        return ApiRequest(
            self.method.upper(),
            self.server + path,
            "&".join(query),
            headers,
            encoded_body.content,
            encoded_body.parts,
            secrets.headers,
            secrets.query,
        )
