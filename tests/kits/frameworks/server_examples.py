"""Serves the examples that FastMCP and the MCP SDK ship or document, and compares them with the packages' own clients.

    python -m tests.kits.frameworks.server_examples CLONE [CLONE ...]

A clone is a checkout of PrefectHQ/fastmcp or modelcontextprotocol/python-sdk. Every Python file, and every Python block
of a page, that makes a server at module level is an example. What the bridge lists, and what tools, resources and
prompts return, must be what the package's own client gets. Examples that need other packages, keys or a network are
counted apart. One line an example that differs, and a table, are printed.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import io
import logging
import os
import random
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp.client import Client
from mcp_types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent

from mcp_bridge.app.bridge import AttachedSource, Bridge
from mcp_bridge.frameworks.discovery import is_server
from mcp_bridge.sources.python.source import PythonSource
from mcp_bridge.testing import connect

SERVER = re.compile(r"^(\w+)(: \w+)? = (FastMCP|MCPServer)\b", re.MULTILINE)
BLOCK = re.compile(r"^([ \t]*)```python[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
SKIPPED = re.compile(r"docs/(v2|v3|python-sdk)/|/i18n/|changelog|updates|/clients?[/_.]|/auth/|oauth|CLAUDE|AGENTS")
OUTSIDE = re.compile(
    r"httpx|requests\.|openapi|from_fastapi|create_proxy|ProxyProvider|aiohttp|pyautogui|subprocess|smtplib|docket|task=True|fastmcp_tasks"
)
VARYING = re.compile(
    r"connection/|0x[0-9a-f]+|example_server|server\b|\d{4}-\d\d-\d\d[T ][\d:.+Z]+|\d{2}:\d{2}:\d{2}[\d.]*|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}|\d+\.\d{4,}|\d{9,}"
)
SECONDS = 20


@dataclass
class Example:
    """One example: where it is from, its text, and what came of it."""

    place: str
    text: str
    outcome: str = ""
    details: list[str] = field(default_factory=list)


def find_examples(clone: Path) -> Iterator[Example]:
    for path in sorted(clone.rglob("*")):
        place = str(path.relative_to(clone))
        if not path.is_file() or SKIPPED.search(f"/{place}") or path.suffix not in (".py", ".md", ".mdx"):
            continue
        text = path.read_text("utf-8", errors="replace")
        if path.suffix == ".py":
            if "examples/" in place or "docs_src/" in place:
                blocks = [text]
            else:
                continue
        else:
            if not place.startswith(("docs/", "README")):
                continue
            blocks = [_dedent(match) for match in BLOCK.finditer(text)]
        for number, block in enumerate(blocks, 1):
            if SERVER.search(block) and "import" in block:
                yield Example(place if path.suffix == ".py" else f"{place}#{number}", block)


def _dedent(match: re.Match[str]) -> str:
    return "\n".join(line.removeprefix(match[1]) for line in match[2].splitlines())


def runs_at_import(text: str) -> bool:
    """Whether a file serves as soon as it is imported."""
    return any(
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and ".run" in ast.unparse(node.value.func)
        for node in ast.parse(text).body
    )


async def answer_form(_: Any, params: Any) -> ElicitResult:
    schema = getattr(params, "requested_schema", None) or {}
    content = {name: make_value(part) for name, part in schema.get("properties", {}).items()}
    return ElicitResult(action="accept", content=content)


async def answer_sampling(*_: Any) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text="Hi"), model="m")


async def list_roots(*_: Any) -> ListRootsResult:
    return ListRootsResult(roots=[Root(uri="file:///work")])


def make_value(schema: Any) -> Any:
    """Make a value of a schema."""
    if "const" in schema or "default" in schema:
        return schema.get("const", schema.get("default"))
    if "enum" in schema:
        return schema["enum"][0]
    if "oneOf" in schema or "anyOf" in schema:
        return make_value((schema.get("oneOf") or schema.get("anyOf"))[0])
    kind = schema.get("type")
    if kind == "object":
        return {name: make_value(part) for name, part in schema.get("properties", {}).items()}
    formats = {
        "date": "2026-01-31",
        "date-time": "2026-01-31T10:00:00Z",
        "email": "a@example.org",
        "uri": "https://a.example",
    }
    text = formats.get(schema.get("format"), "word" + "x" * max(0, schema.get("minLength", 0) - 4))
    number = schema.get("minimum", schema.get("exclusiveMinimum", 1) + (1 if "exclusiveMinimum" in schema else 0))
    return {"integer": number, "number": number, "boolean": True, "array": [], "null": None}.get(str(kind), text)


def make_arguments(schema: Any, root: Any = None) -> dict[str, Any]:
    resolved = _resolve(schema, schema)
    return {name: make_value(_resolve(resolved["properties"][name], schema)) for name in resolved.get("required", ())}


def _resolve(schema: Any, root: Any, depth: int = 0) -> Any:
    if isinstance(schema, dict) and depth < 8:
        if "$ref" in schema:
            target = root
            for part in schema["$ref"].lstrip("#/").split("/"):
                target = target[part]
            return _resolve(target, root, depth + 1)
        return {key: _resolve(value, root, depth + 1) for key, value in schema.items() if key not in ("$defs",)}
    return [_resolve(item, root, depth + 1) for item in schema] if isinstance(schema, list) else schema


async def observe(client: Any) -> dict[str, Any]:
    """List everything, and call, read and get each once. All errors are alike."""
    random.seed(0)
    seen: dict[str, Any] = {}
    tools = (await client.list_tools()).tools
    for tool in tools:
        seen[f"tool {tool.name}"] = (
            tool.title,
            tool.description or "",
            dump(tool.input_schema),
            dump(tool.output_schema),
        )
        seen[f"call {tool.name}"] = await note(client.call_tool(tool.name, make_arguments(tool.input_schema)))
    await asyncio.sleep(0.1)  # a tool may have changed a list
    for resource in (await client.list_resources()).resources:
        seen[f"resource {resource.uri}"] = (resource.name, resource.mime_type)
        seen[f"read {resource.uri}"] = await note(client.read_resource(resource.uri))
    for template in (await client.list_resource_templates()).resource_templates:
        uri = re.sub(r"\{\?.*?\}", "", template.uri_template)
        uri = re.sub(r"\{(.)\*\}", r"{+\1}", uri)
        seen[f"template {template.name}"] = template.mime_type
        seen[f"expand {template.name}"] = await note(client.read_resource(re.sub(r"\{[^}]*\}", "one", uri)))
    for prompt in (await client.list_prompts()).prompts:
        arguments = {one.name: "1" for one in prompt.arguments or ()}
        seen[f"prompt {prompt.name}"] = (prompt.description or "", sorted(arguments))
        seen[f"get {prompt.name}"] = await note(client.get_prompt(prompt.name, arguments))
    return seen


async def note(call: Any) -> Any:
    """Return what a call returned, without what differs every time and what only one of both adds."""
    try:
        result = dump(await asyncio.wait_for(call, SECONDS))
    except Exception as error:
        return f"an error ({type(error).__name__})"[:8]
    for key in ("_meta", "ttlMs", "cacheScope", "resultType", "description"):
        result.pop(key, None)
    if result.get("isError"):
        return "an error"
    return VARYING.sub("", str(result))


def dump(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True) if hasattr(model, "model_dump") else model


async def try_example(example: Example, folder: Path) -> None:
    try:
        tree = ast.parse(example.text)
        del tree
    except SyntaxError:
        example.outcome = "a fragment"
        return
    if OUTSIDE.search(example.text):
        example.outcome = "needs a network, a program or tasks"
        return
    if runs_at_import(example.text):
        example.outcome = "runs when it is imported"
        return
    path = folder / "server.py"
    path.write_text(example.text, "utf-8")
    options = {
        "elicitation_callback": answer_form,
        "sampling_callback": answer_sampling,
        "list_roots_callback": list_roots,
    }
    source = PythonSource("server", path=path)
    bridge = Bridge(sources=[AttachedSource(source=source)])
    try:
        import importlib.util

        spec = importlib.util.spec_from_file_location("example_server", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["example_server"] = module
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        example.outcome = "cannot be imported alone"
        example.details = [f"{type(error).__name__}: {error}"[:150]]
        return
    names = [name for name, value in vars(module).items() if is_server(value)]
    chosen = next((name for name in ("mcp", "server", "app") if name in names), None) or (names[0] if names else None)
    if chosen is None or (len({id(getattr(module, n)) for n in names}) > 1 and chosen not in ("mcp", "server", "app")):
        example.outcome = "several servers, or none"
        return
    server = getattr(module, chosen)
    try:
        if type(server).__name__ == "MCPServer":
            own = Client(server, mode="legacy", **options)
        else:
            own = Client(server._mcp_server, mode="legacy", **options) if hasattr(server, "_mcp_server") else None
            from fastmcp import Client as FastClient

            own = SdkView(
                FastClient(
                    server,
                    mode="legacy",
                    elicitation_handler=_fast_answer,
                    sampling_handler=_fast_sample,
                    roots=["file:///work"],
                )
            )
        expected = {}
        async with asyncio.timeout(3 * SECONDS), own as client:
            expected = await observe(client)
        modern = (
            Client(server, mode="auto", **options)
            if type(server).__name__ == "MCPServer"
            else SdkView(
                FastClient(
                    server, elicitation_handler=_fast_answer, sampling_handler=_fast_sample, roots=["file:///work"]
                )
            )
        )
        async with asyncio.timeout(3 * SECONDS), modern as client:
            newer = await observe(client)
    except BaseException as error:
        example.outcome = "does not work with its own client"
        example.details = [f"{type(error).__name__}: {error}"[:150]]
        return
    try:
        async with asyncio.timeout(SECONDS), connect(bridge, mode="legacy", **options) as client:
            found = await observe(client)
    except BaseException as error:
        example.outcome = "different"
        example.details = [f"{type(error).__name__}: {error} {bridge.problems}"[:300]]
        return
    problems = [line for lines in bridge.problems.values() for line in lines]
    differing = [key for key in {**expected, **found} if found.get(key) not in (expected.get(key), newer.get(key))]
    example.outcome = "same" if not differing and not problems else "different"
    example.details = [
        *problems,
        *(f"{key}: {str(expected.get(key))[:260]} | {str(found.get(key))[:260]}" for key in differing),
    ]


async def _fast_answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
    return await answer_form(context, params)


async def _fast_sample(*_: Any) -> Any:
    return await answer_sampling()


class SdkView:
    """FastMCP's client, with the methods of the SDK's."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def __aenter__(self) -> Any:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._client.__aexit__(*exc_info)

    def __getattr__(self, name: str) -> Any:
        return getattr(
            self._client,
            {
                "list_tools": "list_tools_mcp",
                "list_resources": "list_resources_mcp",
                "list_resource_templates": "list_resource_templates_mcp",
                "list_prompts": "list_prompts_mcp",
                "call_tool": "call_tool_mcp",
                "read_resource": "read_resource_mcp",
                "get_prompt": "get_prompt_mcp",
            }[name],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clones", nargs="+", type=Path)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    sys.argv[1:] = []
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.setdefault("FASTMCP_SHOW_SERVER_BANNER", "false")
    for clone in arguments.clones:
        clone = clone.resolve()
        counts: dict[str, Counter[str]] = {}
        for example in find_examples(clone):
            if arguments.only not in example.place:
                continue
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
                os.chdir(folder)
                asyncio.run(try_example(example, Path(folder)))
            os.chdir("/")
            sys.modules.pop("server", None)
            counts.setdefault(example.place.split("/")[0].split("#")[0], Counter())[example.outcome] += 1
            if example.outcome != "same":
                print(f"{example.outcome}: {example.place}", flush=True)
                if example.outcome in ("different", "does not work with its own client", "cannot be imported alone"):
                    for line in example.details[:6]:
                        print(f"    {line}", flush=True)
        for part, counter in counts.items():
            print(clone.name, part, dict(counter), flush=True)


if __name__ == "__main__":
    main()
