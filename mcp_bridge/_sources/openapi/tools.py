"""Builds the tool of an operation: its schemas, its hints, and the handler that sends its requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mcp_bridge._contracts.errors import SourceError, ToolUnavailable
from mcp_bridge._contracts.tool import ToolEntry, ToolResult, add_hints
from mcp_bridge._json_schema.validator import Validator
from mcp_bridge._json_schema.walking import get_mapping
from mcp_bridge._runtime.http_client.requests import ApiRequest, HttpClientError, HttpResponse
from mcp_bridge._sources.openapi.bodies import BodyWriter, build_body_writer
from mcp_bridge._sources.openapi.credentials import ApiCredentials
from mcp_bridge._sources.openapi.document import ApiDocument, as_mapping
from mcp_bridge._sources.openapi.operations import (
    DeclaredBody,
    DeclaredParameter,
    Operation,
    list_success_responses,
    read_body,
    read_parameters,
)
from mcp_bridge._sources.openapi.requests import RequestBuilder
from mcp_bridge._sources.openapi.responses import note_differences, to_result
from mcp_bridge._sources.openapi.schemas import Schema, SchemaConverter, is_object_schema
from mcp_bridge._sources.openapi.servers import find_server_url
from mcp_bridge._upstream.trust.screening import TextScreen

Send = Callable[[ApiRequest], Awaitable[HttpResponse]]
"""Sends a request and returns the response. Raises HttpClientError."""

MAX_DESCRIPTION = 2_000
"""The maximum number of characters of the description of a tool, and of an argument."""
MAX_OUTPUT_SCHEMA = 32 * 1024
"""The maximum number of characters of an output schema. A larger one is left out, because it would fill the list of
tools, and few clients use it."""
MAX_ACCEPTED_TYPES = 8
"""The maximum number of media types in the header Accept, besides `*/*`."""
UNAUTHORIZED = 401


class ToolBuilder:
    """Builds the tools of one document. `screen` removes hidden text from what the document says to models."""

    def __init__(
        self,
        document: ApiDocument,
        credentials: ApiCredentials,
        send: Send,
        *,
        server: str,
    ) -> None:
        self.screen = TextScreen()
        self._document = document
        self._credentials = credentials
        self._send = send
        self._server = server
        self._inputs = SchemaConverter(document, self.screen)
        self._outputs = SchemaConverter(document, self.screen, only_types=True)

    def build_entry(self, name: str, operation: Operation) -> ToolEntry:
        """Build the tool of an operation. Raises SourceError if the document is wrong at this place."""
        document, content = self._document, operation.content
        schemes = self._credentials.choose_schemes(content) or ()
        # Parameters that the settings add to each request are not arguments of the tool.
        added_parameters = self._credentials.list_added(schemes)
        parameters = []
        for item in read_parameters(document, operation):
            name_on_wire = item.parameter.name
            if item.parameter.location == "header":
                name_on_wire = name_on_wire.lower()
            if (item.parameter.location, name_on_wire) not in added_parameters:
                parameters.append(item)
        body = read_body(document, operation)
        writer = build_body_writer(document, body, self._inputs) if body is not None else None
        builder = RequestBuilder(
            operation.method,
            find_server_url(self._server, document, operation),
            operation.path,
            [item.parameter for item in parameters],
            writer.write if writer is not None else None,
            _choose_accept(document, operation),
        )
        output_schema = self._build_output_schema(operation)
        arguments = {item.name: item.argument for item in builder.parameters if item.location == "query"}
        caller = _OperationCaller(builder, self._credentials, schemes, self._send, arguments, output_schema)
        return ToolEntry(
            name,
            self._screen_text(_describe_operation(operation), operation),
            caller.call_operation,
            self._build_input_schema(parameters, body, writer),
            _allow_differences(output_schema) if output_schema else {},
            list(operation.tags),
            title=self._screen_text(_get_text(content, "summary"), operation) or None,
            annotations=_get_hints(operation.method),
        )

    def _screen_text(self, text: str, operation: Operation) -> str:
        return self.screen.screen_text(text, operation.place)

    def _build_input_schema(
        self, parameters: list[DeclaredParameter], body: DeclaredBody | None, writer: BodyWriter | None
    ) -> Schema:
        properties: dict[str, Schema] = {}
        required = []
        for item in parameters:
            schema = self._inputs.convert_schema(item.schema)
            description = self.screen.screen_text(item.description, "parameters")
            properties[item.parameter.argument] = _add_description(schema, description)
            if item.is_required:
                required.append(item.parameter.argument)
        if body is not None and writer is not None:
            properties["body"] = _add_description(writer.schema, self.screen.screen_text(body.description, "bodies"))
            if body.is_required:
                required.append("body")
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            schema["required"] = required
        return self._inputs.add_definitions(schema)

    def _build_output_schema(self, operation: Operation) -> Schema:
        """Return the schema of results, if all successful responses are JSON objects of the same schema; else `{}`."""
        # A response to HEAD has no body.
        if operation.method == "head":
            return {}
        schemas = []
        for response in list_success_responses(self._document, operation):
            content = get_mapping(response, "content")
            if len(content) != 1 or "json" not in next(iter(content)):
                return {}
            schemas.append(as_mapping(next(iter(content.values()))).get("schema"))
        if not schemas or any(schema != schemas[0] for schema in schemas):
            return {}
        if not isinstance(schemas[0], Mapping) or not is_object_schema(self._document, schemas[0]):
            return {}
        schema = self._outputs.add_definitions({**self._outputs.convert_schema(schemas[0]), "type": "object"})
        return schema if len(str(schema)) <= MAX_OUTPUT_SCHEMA else {}


@dataclass(frozen=True)
class _OperationCaller:
    """Calls one operation.

    Attributes:
        schemes: The security schemes whose credentials are added to the requests.
        arguments: The arguments of the tool by the names of the query parameters they set.
        result_schema: The schema of results in the document; empty if there is none.
    """

    builder: RequestBuilder
    credentials: ApiCredentials
    schemes: tuple[str, ...]
    send: Send
    arguments: Mapping[str, str]
    result_schema: Schema

    @cached_property
    def _validator(self) -> Validator:
        return Validator(self.result_schema)

    async def call_operation(self, data: Any) -> ToolResult:
        """Send the request for these arguments, and return the response as a result. Raises CallError."""
        try:
            secrets = await self.credentials.collect(self.schemes)
            response = await self.send(self.builder.build_http_request(data or {}, secrets))
        except (HttpClientError, SourceError) as error:
            raise ToolUnavailable(f"The API did not respond: {error}.") from error
        # A token may have expired or been replaced.
        if response.status == UNAUTHORIZED:
            self.credentials.forget()
        result = to_result(response, self.arguments, has_schema=bool(self.result_schema))
        if result.success and self.result_schema:
            result = note_differences(result, self._validator)
        return result


def _allow_differences(schema: Schema) -> Schema:
    """Return an output schema that describes results, but accepts every object.

    APIs often return other objects than their documents describe. With a strict schema, clients would reject such a
    result, although the call took effect.
    """
    described_result = dict(schema)
    definitions = described_result.pop("$defs", None)
    other_result = {"description": "Another result than the API's document describes."}
    relaxed_schema = {"type": "object", "anyOf": [described_result, other_result]}
    return relaxed_schema if definitions is None else {**relaxed_schema, "$defs": definitions}


def _choose_accept(document: ApiDocument, operation: Operation) -> str:
    """Return the header Accept: the media types of successful responses, JSON first."""
    media_types: dict[str, None] = {}
    for response in list_success_responses(document, operation):
        for media_type in map(str, get_mapping(response, "content")):
            if media_type.isascii() and media_type.isprintable():
                media_types[media_type] = None
    if not media_types:
        return "*/*"
    json_types = [name for name in media_types if "json" in name]
    other_types = [name for name in media_types if "json" not in name]
    accepted_types = (json_types + other_types)[:MAX_ACCEPTED_TYPES]
    return ", ".join([*accepted_types, "*/*;q=0.1"])


def _describe_operation(operation: Operation) -> str:
    """Return the description of a tool: the summary and the description of the operation, or else its place."""
    summary = _get_text(operation.content, "summary")
    text = _get_text(operation.content, "description")
    if not text.startswith(summary):
        text = f"{summary}\n\n{text}".strip()
    text = text or operation.place
    if operation.content.get("deprecated") is True:
        text = f"Deprecated. {text}"
    return _limit_text(text)


def _add_description(schema: Schema, description: str) -> Schema:
    return {**schema, "description": _limit_text(description)} if description else schema


def _get_text(content: Mapping[str, Any], key: str) -> str:
    value = content.get(key)
    return value.strip() if isinstance(value, str) else ""


def _limit_text(text: str) -> str:
    return text if len(text) <= MAX_DESCRIPTION else f"{text[:MAX_DESCRIPTION]} [truncated]"


def _get_hints(method: str) -> dict[str, Any]:
    """Return the annotations that follow from the method (RFC 9110, 9.2: safe and idempotent methods)."""
    if method in ("get", "head", "options", "trace"):
        return add_hints(None, {"read_only": True, "open_world": True})
    if method == "delete":
        return add_hints(None, {"destructive": True, "idempotent": True, "open_world": True})
    return add_hints(None, {"open_world": True})
