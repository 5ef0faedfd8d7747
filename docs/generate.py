"""Generate docs/settings-reference.md, docs/errors.md, config/settings.schema.json and the schemas of params.

`--check` writes nothing and exits with 1 if a file is out of date.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from generate_params import build_files
from pydantic import BaseModel

from mcp_bridge._contracts.jsonrpc import MISSING_CAPABILITY
from mcp_bridge._engine.plugins import POLICIES, load_policy_type, load_source_models
from mcp_bridge._policies.base import CallPolicy
from mcp_bridge._protocol.wire.outcomes import TABLE
from mcp_bridge._settings import build_json_schema, chains, isolation, model, sections
from mcp_bridge._sources.command.options import CommandToolSettings

ROOT = Path(__file__).parent.parent


def schema() -> dict[str, Any]:
    """The JSON Schema of the settings file with all known source types and policies."""
    return build_json_schema(load_source_models(), {name: load_policy_type(name) for name in POLICIES})


def errors_page() -> str:
    """docs/errors.md: the table of outcomes."""
    rows = [
        f"| `{row.code}` | `{row.error.__name__}` | {_reaches(row.rpc_code)} | {row.meaning} | {row.advice} |"
        for row in TABLE
    ]
    return "\n".join([ERRORS_HEAD, *rows, ERRORS_FOOT])


def _reaches(rpc_code: int | None) -> str:
    if rpc_code == MISSING_CAPABILITY:
        return f"JSON-RPC error {rpc_code}; in the handshake versions a result with `isError`"
    return f"JSON-RPC error {rpc_code}" if rpc_code is not None else "result with `isError`"


def protocol_words() -> str:
    """mcp_bridge/_server/protocol_words.txt: keys of the messages of MCP and the values that it defines, one a line."""
    import mcp_types

    public = [value for name, value in vars(mcp_types).items() if not name.startswith("_")]
    models = [value for value in public if isinstance(value, type) and issubclass(value, BaseModel)]
    fields = [(field.alias or key, field) for model in models for key, field in model.model_fields.items()]
    words = {value for value in public if isinstance(value, str)} | {key for key, _ in fields}
    return "\n".join(sorted(words.union(*(_literals(field.annotation) for _, field in fields)))) + "\n"


def _literals(annotation: Any) -> set[str]:
    """The text that a type allows."""
    if get_origin(annotation) is Literal:
        return {value for value in get_args(annotation) if isinstance(value, str)}
    return set().union(*map(_literals, get_args(annotation)))


def settings_page() -> str:
    """docs/settings-reference.md: every key of the settings file."""
    basic = [row for keys, prefix, names in _list_basic() for row in _rows(keys, prefix, names)]
    parts = [SETTINGS_HEAD, *TABLE_HEAD, *basic, ADVANCED_HEAD, _table(model.Settings, "")]
    parts += ["## sources\n\nA list of [sources](sources.md). Each has these keys, and the keys of its type.\n"]
    parts += [_table(model.SourceSettings, "sources[].")]
    parts += ["### isolation\n", _table(isolation.IsolationSettings, "sources[].isolation.")]
    parts += [CONTAINER_HEAD, _table(isolation.ContainerSettings, "sources[].isolation.container.")]
    parts += [SANDBOX_HEAD, _table(sections.SandboxSettings, "sources[].sandbox.")]
    for name, options in load_source_models().items():
        parts.append(f"### type: {name}\n\n{inspect.getdoc(options)}\n")
        parts.append(_table(options, "sources[]."))
        if name == "command":
            parts += ["Each tool has these keys:\n", _table(CommandToolSettings, "sources[].tools.*.")]
    parts += [POLICY_HEAD, _table(CallPolicy, "policy[].*.")]
    for name in POLICIES:
        policy = load_policy_type(name)
        parts.append(f"### policy: {name}\n\n{inspect.getdoc(policy)}\n")
        if policy.model_fields.keys() - CallPolicy.model_fields.keys():
            parts.append(_table(policy, f"policy[].{name}.", without=CallPolicy.model_fields))
    parts += ["## chains\n\n[Chains](chains.md) by their names.\n", _table(chains.ChainSettings, "chains.*.")]
    parts += ["Each step has these keys:\n", _table(chains.ChainStepSettings, "chains.*.steps[].")]
    limits = (("limits", sections.LimitSettings), ("limits.tools.*", sections.ToolLimitSettings))
    for key, part in (
        *limits,
        ("http", sections.HttpSettings),
        ("http.jwt", sections.JwtSettings),
        ("http.page", sections.PageSettings),
        ("state", sections.StateSettings),
        ("tasks", sections.TaskSettings),
        ("tasks.tools.*", sections.ToolTaskSettings),
        ("shared", sections.SharedSettings),
        ("approvals", sections.ApprovalSettings),
        ("dialect", sections.DialectSettings),
        ("tool_search", sections.ToolSearchSettings),
    ):
        parts += [f"## {key}\n", _table(part, f"{key}.")]
    parts.append(EVENT_LOOP)
    return "\n".join([*parts, SETTINGS_FOOT])


def _list_basic() -> list[tuple[type[BaseModel], str, Sequence[str]]]:
    """The keys that most files have: their model, their prefix, and their names."""
    models = load_source_models()
    return [
        (model.Settings, "", ("name", "instructions", "sources")),
        (model.SourceSettings, "sources[].", ("type", "name", "prefix", "include", "exclude")),
        (models["python"], "sources[].", ("path",)),
        (models["mcp"], "sources[].", ("command", "args", "env", "url")),
        (model.Settings, "", ("policy",)),
        (sections.LimitSettings, "limits.", ("timeout",)),
        (sections.HttpSettings, "http.", ("host", "port", "token_env", "page")),
    ]


def _table(keys: type[BaseModel], prefix: str, without: Container[str] = ()) -> str:
    """A table of the keys of a model, without the basic ones."""
    basic = {(keys, name) for keys, _, names in _list_basic() for name in names}
    hidden = {(model.SourceSettings, "options"), *basic}
    names = [name for name in keys.model_fields if name not in without and (keys, name) not in hidden]
    names.sort(key=lambda name: name not in keys.__annotations__)  # those of base classes follow
    return "\n".join([*TABLE_HEAD, *_rows(keys, prefix, names), ""])


def _rows(keys: type[BaseModel], prefix: str, names: Sequence[str]) -> list[str]:
    properties = keys.model_json_schema().get("properties", {})
    return [
        f"| `{prefix}{name}` | {_type(item)} | {_default(item)} | {item.get('description', '')} |"
        for name, item in ((name, properties[name]) for name in names if name in properties)
    ]


def _type(item: dict[str, Any]) -> str:
    if "anyOf" in item:
        return " or ".join(dict.fromkeys(_type(part) for part in item["anyOf"] if part.get("type") != "null"))
    if item.get("type") == "array":
        return f"list of {_type(item.get('items', {}))}s"
    return {"string": "string", "object": "mapping"}.get(item.get("type", ""), item.get("type", "section"))


def _default(item: dict[str, Any]) -> str:
    value = item.get("default")
    return "" if value in (None, [], {}) or isinstance(value, dict) else f"`{json.dumps(value)}`"


ERRORS_HEAD = """# Errors

<!-- Made by `make docs` from mcp_bridge/_protocol/wire/outcomes.py; do not edit. -->

Errors that a model can act on are results with `isError`. Their text says what was wrong and what to do, and
`mcp-bridge/code` in `_meta` has a stable code. Errors that only a programmer can fix are JSON-RPC errors. The text of a
`ToolError` or a failed `ToolResult` reaches the client verbatim. For any other exception of a tool, the client receives
"internal error" with a reference, and the log has the traceback under that reference.

Results for resources, prompts and completions have no `isError`. Their errors are JSON-RPC errors with the same text
and with the code in `data`: -32602 for invalid arguments and for names and URIs that do not exist, -32603 for
everything else.

| code | class | sent as | meaning | what to do |
|---|---|---|---|---|"""
ERRORS_FOOT = """
A malformed message is answered with -32700 (not JSON) or -32600 (not JSON-RPC), an unknown method with -32601, and an
invalid cursor with -32602. With invalid settings, the server does not start: it exits with code 2 and a message that
contains the file, the line, the problem and a hint.
"""
SETTINGS_HEAD = """# Settings reference

<!-- Made by `make docs` from mcp_bridge/_settings/model.py; do not edit. -->

Every key of the settings file. [Settings](settings.md) explains the file and how to write one, and the folder
[config](../config) has an example of every feature. A duration is a number of seconds, or text such as `90s`, `5m` or
`30d`. A size is a number of bytes, or text such as `1 MiB`.

## Basic settings

These keys are enough for most files. `path` is a key of Python files and folders, and `command`, `args`, `env` and
`url` are keys of MCP servers.
"""
TABLE_HEAD = ("| key | type | default | meaning |", "|---|---|---|---|")
ADVANCED_HEAD = """
## Advanced settings

All other keys. The basic ones are not repeated.
"""
SANDBOX_HEAD = """### sandbox

`sandbox` of `isolation`, of commands and of MCP servers is `true`, the name of a type, or a mapping with what it
allows. Relative paths start at the folder of the settings file.
"""
CONTAINER_HEAD = """### container

The [container](isolation.md#container) of workers is `docker`, `podman`, or a mapping with these keys. Relative paths
start at the folder of the settings file.
"""
POLICY_HEAD = """## policy

A list of [policies](policies.md). Each item is the name of one of the policies below, or a mapping from its name to its
options. All of them have these keys, which select the calls to which the policy applies; `resources` and `prompts`
exist only for `audit`, `allow`, `deny`, `rate_limit` and `redact`.
"""
EVENT_LOOP = """## event_loop

Tools, hooks and modules are written for asyncio, so `serve` runs them on asyncio's own loop. `event_loop: uvloop` runs
them on uvloop, which may take less CPU per call: measure it with your tools. Install it with
`pip install 'mcp-tool-bridge[uvloop]'`; it exists for CPython on Linux and macOS. Workers of `isolation: process`
always run on asyncio's own loop.

**uvloop does not always behave like asyncio, and the difference can disable a policy.** When a child process
exits before it reads its input, asyncio raises BrokenPipeError and `Process.communicate()` suppresses it. uvloop raises
RuntimeError instead, at random, and `communicate()` fails. Every tool that pipes into a program that stops reading is
affected. So is every hook that runs a program: hook-shell treats an error of its own as "allowed", so calls that its
program denies are executed, and the log does not show it. Use uvloop only if no tool, hook or module of yours writes
to the input of a child process.
"""
SETTINGS_FOOT = """## Exit codes

| code | meaning |
|---|---|
| 0 | success |
| 1 | a tool call failed, `validate` or `doctor` found a problem, or no source could be loaded |
| 2 | invalid options or settings |
| 3 | no tool or decision has that name |
| 130 | stopped by Ctrl-C (not `serve`, which ends with 0) |
"""


def pages() -> Iterator[tuple[Path, str]]:
    """Every generated file and what should be in it."""
    yield ROOT / "mcp_bridge" / "_server" / "protocol_words.txt", protocol_words()
    made = schema()
    yield ROOT / "config" / "settings.schema.json", json.dumps(made, indent=2, ensure_ascii=False) + "\n"
    yield ROOT / "docs" / "settings-reference.md", re.sub(r"\n{3,}", "\n\n", settings_page())
    yield ROOT / "docs" / "errors.md", errors_page()
    yield from build_files()


def main() -> None:
    """Write the pages, or check them."""
    stale = [path for path, text in pages() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        raise SystemExit("\n".join(f"{path.name} is not up to date: run make docs" for path in stale) or 0)
    for path, text in pages():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
