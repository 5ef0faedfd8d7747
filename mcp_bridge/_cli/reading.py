"""`read` prints the contents of a resource, and `get` the messages of a prompt, as a client receives them."""

from __future__ import annotations

import base64
import sys
from typing import Any

import anyio

from mcp_bridge._cli import logs
from mcp_bridge._cli.options import GetOptions, ReadOptions, RequestOptions
from mcp_bridge._cli.output import print_lines, report, write_json
from mcp_bridge._cli.remote import format_block, read_items, request_from_server
from mcp_bridge._cli.server_address import find_address, is_target, make_missing_error, split_target
from mcp_bridge._contracts.errors import ConfigError, SourceError
from mcp_bridge._runtime.stdio_descriptors import reserve_stdio
from mcp_bridge._runtime.terminal_text import escape_text


def print_resource(options: ReadOptions) -> None:
    """Print the contents of a resource, or the result as JSON. A terminal gets no bytes. Raises BridgeError."""
    words, target = options.words, options.file
    if len(words) == 2 and target is None:
        target, uri = words
    elif len(words) == 1:
        uri = words[0]
    else:
        raise ConfigError(f"found {len(words)} words", where="read", hint="Use: mcp-bridge read [TARGET] URI")
    if target is None and "://" not in uri and is_target(uri):
        raise make_missing_error(uri, "URI")
    result = _request(options, target, "resources/read", {"uri": uri})
    if options.as_json:
        write_json(result)
        return
    is_terminal = sys.stdout.isatty()
    for contents in read_items(result, "contents"):
        if "text" in contents:
            text = str(contents["text"])
            # Only on a terminal, control characters have to be escaped. A file gets the exact text.
            print(escape_text(text) if is_terminal else text)
            continue
        try:
            data = base64.b64decode(contents["blob"])
        except (KeyError, TypeError, ValueError) as error:
            raise SourceError("the server returned contents that are neither text nor Base64") from error
        if is_terminal:
            media_type = contents.get("mimeType", "binary data")
            report(f"{uri}: {len(data):,} bytes of {media_type}; redirect the output to a file, or use --json")
        else:
            sys.stdout.buffer.write(data)


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
    result = _request(options, target, "prompts/get", {"name": name, "arguments": arguments})
    if options.as_json:
        write_json(result)
        return
    for message in read_items(result, "messages"):
        print_lines(f"{message.get('role')}: {format_block(message.get('content') or {})}")


def _request(options: RequestOptions, target: str | None, method: str, params: dict[str, Any]) -> Any:
    logs.configure_logging(options.log_level)
    address = find_address(target, options)
    # Stdout is only for the result.
    with reserve_stdio():
        return anyio.run(request_from_server, address or target, method, params)
