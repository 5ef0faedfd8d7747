"""The examples of requests in public documents: `make openapi-examples`. Installs the documents from npm.

The schema of a tool validates each example, which becomes a request that is not sent. A rejected example must also
break the document: another library (jsonschema) validates it by the schema in the document. This is not a part of the
tests, because it needs the network. It prints the reasons of rejections, and the counts.
"""

from __future__ import annotations

import collections
import contextlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import anyio
import jsonschema
import referencing
import referencing.jsonschema

from mcp_bridge._contracts.errors import InvalidArguments, SourceError
from mcp_bridge._json_schema.validator import Validator
from mcp_bridge._runtime.http_client.requests import ApiRequest, HttpResponse
from mcp_bridge._sources.openapi.credentials import ApiCredentials
from mcp_bridge._sources.openapi.document import ApiDocument, as_mapping, read_document
from mcp_bridge._sources.openapi.operations import (
    Operation,
    find_operations,
    name_operations,
    read_body,
    read_parameters,
)
from mcp_bridge._sources.openapi.parameters import write_value
from mcp_bridge._sources.openapi.tools import ToolBuilder
from tests.kits.openapi.public_documents import DIRECTORY, install_from_npm

MAX_SHARE = 0.03
"""The maximum share of examples that may be rejected."""
MAX_SIZE = 3_000_000
"""The maximum number of bytes of a document. A few are as large as all the others."""

_FILE = re.compile(r"\S+\.json(#\S*)?")
"""The name of a file with an example, which no package contains."""


class Example(NamedTuple):
    """A documented request: its arguments, and the schema of the document for each argument with an example."""

    arguments: Mapping[str, Any]
    schemas: Mapping[str, Any]


def find_documents(folder: Path) -> Iterator[Path]:
    """Yield the installed files that look like OpenAPI documents."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".json", ".yaml", ".yml") and path.is_file() and path.stat().st_size <= MAX_SIZE:
            with path.open("rb") as file:
                if re.search(rb"[\"']?openapi[\"']?: ?[\"']?3\.", file.read(4_096)):
                    yield path


def find_values(document: ApiDocument, holder: Any) -> list[Any]:
    """Return the examples of a parameter or a media type, or else of its schema."""
    given: Any = as_mapping(holder)
    values = [given["example"]] if "example" in given else []
    for example in as_mapping(given.get("examples")).values():
        resolved = document.resolve_node(example)
        if "value" in resolved:
            values.append(resolved["value"])
    if not values and given.get("schema") is not None:
        schema: Any = document.resolve_node(given["schema"])
        values = [schema["example"]] if "example" in schema else []
    return [value for value in values if not (isinstance(value, str) and _FILE.fullmatch(value))]


def find_examples(document: ApiDocument, operation: Operation, input_schema: Any) -> Iterator[Example]:
    """Yield the documented requests of an operation, with all arguments that have examples."""
    holders = {}
    for raw in (*operation.item.get("parameters", ()), *operation.content.get("parameters", ())):
        holder = document.resolve_node(raw)
        media = list(as_mapping(holder.get("content")).values())
        holders[holder.get("name"), holder.get("in")] = media[0] if media else holder
    arguments: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for parameter in read_parameters(document, operation):
        values = find_values(document, holders.get((parameter.parameter.name, parameter.parameter.location)))
        if values:
            argument = parameter.parameter.argument
            arguments[argument] = read_parameter(values[0], select_argument(input_schema, argument))
            schemas[argument] = parameter.schema
    body = read_body(document, operation)
    if body is not None and ("json" in body.media_type or "form" in body.media_type):
        content = as_mapping(document.resolve_node(operation.content["requestBody"]).get("content"))
        for value in find_values(document, document.resolve_node(content[body.media_type])):
            argument = read_body_example(value, input_schema["properties"]["body"], body.media_type)
            yield Example({**arguments, "body": argument}, {**schemas, "body": body.schema})
            schemas["body"] = None
    if schemas and "body" not in schemas:
        yield Example(arguments, schemas)


def select_argument(input_schema: Any, name: str) -> Any:
    """Return the schema of one argument, with the definitions of the whole."""
    return {**input_schema["properties"][name], "$defs": input_schema.get("$defs", {})}


def read_parameter(value: Any, schema: Any) -> Any:
    """Read the example of a parameter, which is text in a request, as a value of its schema if it fits one."""
    text = write_value(value)
    readings = [value, text, text.split(","), [value]]
    with contextlib.suppress(ValueError):
        readings.insert(1, json.loads(text))
    validator = Validator(schema)
    return next((reading for reading in readings if validator.is_valid(reading)), value)


def read_body_example(value: Any, schema: Any, media_type: str) -> Any:
    """Read the example of a body: JSON or a form can be text, and a file only its name."""
    if isinstance(value, str) and "json" in media_type:
        with contextlib.suppress(ValueError):
            return json.loads(value)
    elif isinstance(value, str):
        value = dict(parse_qsl(value))
    if "multipart" in media_type and isinstance(value, dict):
        properties = schema.get("properties", {})
        files = {name for name in value if as_mapping(properties.get(name)).get("required") == ["data"]}
        value = {name: {"data": ""} if name in files else member for name, member in value.items()}
    return value


def find_violation(document: ApiDocument, example: Example) -> str:
    """Return how an example breaks the schemas of its document, by another library; empty if it does not."""
    draft, dialect = jsonschema.Draft202012Validator, referencing.jsonschema.DRAFT202012
    if document.is_3_0:
        draft, dialect = jsonschema.Draft4Validator, referencing.jsonschema.DRAFT4
    resource: Any = dialect.create_resource(document.data)
    registry: Any = referencing.Registry().with_resource("urn:document", resource)
    resolver = registry.resolver("urn:document")
    for name, schema in example.schemas.items():
        validator: Any = draft(schema or {}, registry=registry, _resolver=resolver)
        if schema is None:
            continue
        for error in validator.iter_errors(example.arguments[name]):
            return f"{error.json_path} of {name}: {error.validator}: {error.message[:160]}"
    return ""


def find_unsendable(problems: Sequence[str]) -> str:
    """Return the problem of a value that is impossible in any request."""
    words = ("a header can only have", "must not be")
    return next((problem for problem in problems for word in words if word in problem), "")


async def fetch_nothing(url: str, form: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    raise AssertionError("no credentials are used")


class Count(collections.Counter[str]):
    """The outcomes of the examples, and the keywords broken by rejected examples."""

    def __init__(self) -> None:
        super().__init__()
        self.keywords: collections.Counter[str] = collections.Counter()


async def check_document(path: Path, count: Count) -> None:
    """Validate the examples of one document, and print why any are rejected."""
    requests: list[ApiRequest] = []

    async def record_request(request: ApiRequest) -> HttpResponse:
        requests.append(request)
        return HttpResponse(204, "", {}, b"", request.url)

    try:
        document = read_document(path)
        credentials = ApiCredentials(
            document=document, secrets={}, headers={}, fetch_token=fetch_nothing, add_secrets=lambda _: None
        )
    except SourceError as error:
        print(f"{path.name}: {error}")
        return
    builder = ToolBuilder(document, credentials, record_request, server="https://api.example")
    number = count["examples"]
    for name, operation in name_operations(find_operations(document, [])).items():
        try:
            entry = builder.build_entry(name, operation)
            examples = list(find_examples(document, operation, entry.input_schema))
        except SourceError:
            continue
        paths = {item.parameter.argument: "1" for item in read_parameters(document, operation) if item.is_required}
        validator = Validator({**entry.input_schema, "required": []})
        for example in examples:
            count["examples"] += 1
            problems: Sequence[str] = []
            if not validator.is_valid(example.arguments):
                problems = validator.describe_problems(example.arguments)
            else:
                try:
                    await entry.handler({**paths, **example.arguments})
                except InvalidArguments as error:
                    problems = error.details
            if problems:
                violation = find_violation(document, example) or find_unsendable(problems)
                count["rejected"] += 1
                count["rejected, and the document allows it"] += not violation
                count.keywords[violation.partition(": ")[2].partition(": ")[0]] += 1
                reason = "; ".join(problems[:3])[:300]
                print(
                    f"{path.stem}: {operation.place}: {reason}\n    {violation or 'THE DOCUMENT ALLOWS IT'}", flush=True
                )
    count["documents"] += count["examples"] > number


def main() -> int:
    """Install and validate; the exit code is 1 if too many examples are rejected, or one without a reason."""
    count = Count()
    with tempfile.TemporaryDirectory(prefix="openapi ") as name:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(name)
        if len(sys.argv) == 1:
            install_from_npm(folder, [DIRECTORY])
        for path in find_documents(folder):
            anyio.run(check_document, path, count)
    print(dict(count), dict(count.keywords.most_common()))
    unexplained = count["rejected, and the document allows it"]
    return int(bool(unexplained) or count["rejected"] > MAX_SHARE * count["examples"])


if __name__ == "__main__":
    raise SystemExit(main())
