"""`read` and `get`: the contents of a resource and the messages of a prompt, as a client receives them."""

from __future__ import annotations

import base64
import sys
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from mcp_bridge._cli import logs
from mcp_bridge._cli.options import GetOptions, ReadOptions
from mcp_bridge._cli.output import print_lines, report, write_json
from mcp_bridge._cli.remote import format_block, use_server
from mcp_bridge._cli.server_address import find_address, is_target, make_missing_error, split_target
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._runtime.stdio_descriptors import reserve_stdio
from mcp_bridge._runtime.terminal_text import escape_text


def print_resource(options: ReadOptions) -> None:
    """Print the contents of a resource: text, bytes (not on a terminal), or the result as JSON. Raises BridgeError."""
    words, target = options.words, options.file
    if len(words) == 2 and target is None:
        target, words = words[0], words[1:]
    if len(words) == 1 and target is None and "://" not in words[0] and is_target(words[0]):
        raise make_missing_error(words[0], "URI")
    if len(words) != 1:
        raise ConfigError(f"found {len(words)} words", where="read", hint="Use: mcp-bridge read [TARGET] URI")
    result = _request(options, target, partial(_fetch_contents, uri=words[0]))
    if options.as_json:
        write_json(result)
        return
    for contents in result["contents"]:
        if "text" in contents:
            # A file gets the exact text.
            print(escape_text(contents["text"]) if sys.stdout.isatty() else contents["text"])
        elif sys.stdout.isatty():
            size, kind = len(base64.b64decode(contents["blob"])), contents.get("mimeType", "binary data")
            report(f"{contents['uri']}: {size:,} bytes of {kind}; redirect the output to a file, or use --json")
        else:
            sys.stdout.buffer.write(base64.b64decode(contents["blob"]))


def get_prompt(options: GetOptions) -> None:
    """Print the messages of a prompt, each after its role, or the result as JSON. Raises BridgeError."""
    target, name, pairs = split_target(options.words, options.file, "prompt")
    arguments = dict[str, str]()
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise ConfigError(
                f"'{pair}' is not name=value", where="arguments", hint="The arguments of prompts are text"
            )
        arguments[key] = value
    result = _request(options, target, partial(_fetch_messages, name=name, arguments=arguments))
    if options.as_json:
        write_json(result)
        return
    for message in result["messages"]:
        print_lines(f"{message['role']}: {format_block(message['content'])}")


async def _fetch_contents(client: Any, uri: str) -> dict[str, Any]:
    return _dump_result(await client.read_resource(uri))


async def _fetch_messages(client: Any, name: str, arguments: dict[str, str]) -> dict[str, Any]:
    return _dump_result(await client.get_prompt(name, arguments))


def _dump_result(result: Any) -> dict[str, Any]:
    data: dict[str, Any] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return data


def _request(options: ReadOptions | GetOptions, target: str | None, use: Any) -> dict[str, Any]:
    logs.configure_logging(options.log_level)
    address = find_address(target, options.command, options.token_env)
    path = Path(target) if target is not None else None
    with reserve_stdio():  # stdout is only for the result
        return anyio.run(use_server, address or path, use)
