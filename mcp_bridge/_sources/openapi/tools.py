"""Builds the tool of an operation: its schemas, its hints, and the handler that sends the request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mcp_bridge._contracts.errors import SourceError, ToolUnavailable
from mcp_bridge._contracts.tool import ToolEntry, ToolResult, add_hints
from mcp_bridge._json_schema.validator import Validator
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
from mcp_bridge._sources.openapi.parameters import Parameter
from mcp_bridge._sources.openapi.requests import RequestBuilder
from mcp_bridge._sources.openapi.responses import note_differences, to_result
from mcp_bridge._sources.openapi.schemas import Schema, SchemaConverter, is_object_schema
from mcp_bridge._sources.openapi.servers import ServerChoice
from mcp_bridge._upstream.trust.screening import TextScreen

Send = Callable[[ApiRequest], Awaitable[HttpResponse]]

MAX_DESCRIPTION = 2_000
"""The maximum number of characters of the description of a tool, and of an argument."""
MAX_OUTPUT_SCHEMA = 32 * 1024
"""The maximum number of characters of an output schema. Lists of tools contain them, and few clients use them."""
UNAUTHORIZED = 401


class ToolBuilder:
    """Builds the tools of one document."""

    def __init__(
        self,
        document: ApiDocument,
        credentials: ApiCredentials,
        send: Send,
        *,
        servers: ServerChoice,
    ) -> None:
        self.screen = TextScreen()
        self._document = document
        self._credentials = credentials
        self._send = send
        self._servers = servers
        self._inputs = SchemaConverter(document, self.screen)
        self._outputs = SchemaConverter(document, self.screen, only_types=True)

    def build_entry(self, name: str, operation: Operation) -> ToolEntry:
        """Build the tool of an operation. Raises SourceError if the document is wrong at this place."""
        document, content = self._document, operation.content
        schemes = self._credentials.choose_schemes(content) or ()
        # What the settings add to each request is not asked from the model.
        added = self._credentials.list_added(schemes)
        parameters = [one for one in read_parameters(document, operation) if _get_key(one.parameter) not in added]
        body = read_body(document, operation)
        writer = build_body_writer(document, body, self._inputs) if body is not None else None
        builder = RequestBuilder(
            operation.method,
            self._servers.find_url(document, operation),
            operation.path,
            [declared.parameter for declared in parameters],
            writer.write if writer is not None else None,
            _choose_accept(document, operation),
        )
        output_schema = self._build_output_schema(operation)
        queries = {one.name: one.argument for one in builder.parameters if one.location == "query"}
        caller = _OperationCaller(builder, self._credentials, schemes, self._send, queries, output_schema)
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
        for declared in parameters:
            schema = self._inputs.convert_schema(declared.schema)
            description = self.screen.screen_text(declared.description, "parameters")
            properties[declared.parameter.argument] = _add_description(schema, description)
            if declared.required:
                required.append(declared.parameter.argument)
        if body is not None and writer is not None:
            properties["body"] = _add_description(writer.schema, self.screen.screen_text(body.description, "bodies"))
            if body.required:
                required.append("body")
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return self._inputs.add_definitions({**schema, "required": required} if required else schema)

    def _build_output_schema(self, operation: Operation) -> Schema:
        """Return the schema of results if every response of success has the same JSON object; else an empty one."""
        if operation.method == "head":
            return {}
        schemas = []
        for response in list_success_responses(self._document, operation):
            content = as_mapping(response.get("content"))
            if len(content) != 1 or "json" not in next(iter(content)):
                return {}
            schemas.append(as_mapping(next(iter(content.values()))).get("schema"))
        if not schemas or any(schema != schemas[0] for schema in schemas):
            return {}
        if not isinstance(schemas[0], Mapping) or not is_object_schema(self._document, schemas[0]):
            return {}
        converted = self._outputs.add_definitions({**self._outputs.convert_schema(schemas[0]), "type": "object"})
        return converted if len(str(converted)) <= MAX_OUTPUT_SCHEMA else {}


@dataclass(frozen=True)
class _OperationCaller:
    """Calls an operation. `queries` are its arguments by the names of the query's parameters.

    `documented` is the schema of its results in the document; empty if there is none.
    """

    builder: RequestBuilder
    credentials: ApiCredentials
    schemes: tuple[str, ...]
    send: Send
    queries: Mapping[str, str]
    documented: Schema

    @cached_property
    def _validator(self) -> Validator:
        return Validator(self.documented)

    async def call_operation(self, data: Any) -> ToolResult:
        """Send the request for these arguments, and return the response as a result. Raises CallError."""
        try:
            secrets = await self.credentials.collect(self.schemes)
            response = await self.send(self.builder.build_http_request(data or {}, secrets))
        except (HttpClientError, SourceError) as error:
            raise ToolUnavailable(f"The API did not respond: {error}.") from error
        if response.status == UNAUTHORIZED:
            self.credentials.forget()
        result = to_result(response, self.queries, has_schema=bool(self.documented))
        return note_differences(result, self._validator) if result.success and self.documented else result


def _allow_differences(documented: Schema) -> Schema:
    """Return an output schema that describes results, and rejects no object.

    APIs differ from their documents, and a client rejects a result that does not match its schema, although the call
    took effect.
    """
    definitions = {key: value for key, value in documented.items() if key == "$defs"}
    described = {key: value for key, value in documented.items() if key != "$defs"}
    other = {"description": "Another result than the API's document describes."}
    return {"type": "object", "anyOf": [described, other], **definitions}


def _get_key(parameter: Parameter) -> tuple[str, str]:
    """Return the place and the name of a parameter, as `ApiCredentials.list_added` does."""
    name = parameter.name.lower() if parameter.location == "header" else parameter.name
    return parameter.location, name


def _choose_accept(document: ApiDocument, operation: Operation) -> str:
    """Return the media types of successful responses, JSON first."""
    kinds = dict.fromkeys(
        str(kind)
        for response in list_success_responses(document, operation)
        for kind in as_mapping(response.get("content"))
        if str(kind).isascii() and str(kind).isprintable()
    )
    ordered = sorted(kinds, key=lambda kind: "json" not in kind)
    return ", ".join([*ordered[:8], "*/*;q=0.1"]) if ordered else "*/*"


def _describe_operation(operation: Operation) -> str:
    """Return the description of a tool. Models need to know what is deprecated."""
    summary, description = (_get_text(operation.content, key) for key in ("summary", "description"))
    text = description if description.startswith(summary) else f"{summary}\n\n{description}".strip()
    text = text or operation.place
    deprecated = "Deprecated. " if operation.content.get("deprecated") is True else ""
    return _limit_text(f"{deprecated}{text}")


def _add_description(schema: Schema, description: str) -> Schema:
    return {**schema, "description": _limit_text(description)} if description else schema


def _get_text(content: Mapping[str, Any], key: str) -> str:
    value = content.get(key)
    return value.strip() if isinstance(value, str) else ""


def _limit_text(text: str) -> str:
    return text if len(text) <= MAX_DESCRIPTION else f"{text[:MAX_DESCRIPTION]} [truncated]"


def _get_hints(method: str) -> dict[str, Any]:
    """Return what HTTP guarantees about a method (RFC 9110, 9.2), and nothing that would be a guess."""
    if method in ("get", "head", "options", "trace"):
        return add_hints(None, {"read_only": True, "open_world": True})
    if method == "delete":
        return add_hints(None, {"destructive": True, "idempotent": True, "open_world": True})
    return add_hints(None, {"open_world": True})
