"""The result of a command: its output in the declared format, or the meaning of its exit code."""

from __future__ import annotations

import json
import mimetypes
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from pydantic import Field

from mcp_bridge._contracts.content import Content, EmbeddedResource, Text
from mcp_bridge._contracts.tool import ToolResult
from mcp_bridge._json_schema.size_limits import MAX_VALUES, has_too_many_values
from mcp_bridge._protocol.wire.values import from_bytes
from mcp_bridge._settings.sections import SettingsModel
from mcp_bridge._settings.values import Whole
from mcp_bridge._sources.command.program import EXIT_NOT_EXECUTED, ProgramExit

EXIT_CODE = "mcp-bridge/exit_code"
"""The key in `_meta` for the exit code of a program."""
TEXT, JSON, JSON_LINES = "text", "json", "json_lines"
MAX_OUTPUT = 16 * 1024 * 1024
"""The maximum number of bytes of the output, and of all files together. A program that prints more is stopped."""
_MAX_TAIL = 4000
"""The maximum number of characters in an error from the end of stderr, and from the end of the output."""
_MAX_START = 200
"""The maximum number of bytes in an error from the start of output that is not JSON."""


class OutputSettings(SettingsModel):
    """The options for the result of a command: its format, its files, and which exit codes mean success."""

    output: str = Field(
        default=TEXT,
        pattern=r"^(text|json|json_lines|[a-z]+/[\w.+-]+)$",
        description="The format of the output: `text`, `json`, `json_lines` (one value on each line), or a media type "
        "such as `image/png`.",
    )
    stderr: Literal["error", "output"] = Field(
        default="error",
        description="`error`: the errors of calls have the end of stderr. `output`: stderr is part of the output.",
    )
    files: tuple[str, ...] = Field(
        default=(), description="Files that the program writes, relative to `cwd`, which are added to the result."
    )
    exit_codes: tuple[Whole, ...] = Field(default=(0,), min_length=1, description="The exit codes that mean success.")
    errors: dict[int, str] = Field(
        default={}, description="The text of the error for an exit code, instead of what the program printed."
    )

    @property
    def is_text(self) -> bool:
        return self.output == TEXT

    def build_result(self, program_exit: ProgramExit, label: str, directory: Path, root: Path) -> ToolResult:
        """Build the result of an ended program. `label` is its name in messages.

        The files of the result are relative to `directory`, and have to be in `root`.
        """
        meta = {EXIT_CODE: program_exit.code}
        if program_exit.code not in self.exit_codes:
            return _make_failed_result(self._describe_failure(program_exit, label), meta)
        if self.output in (JSON, JSON_LINES) and has_too_many_values(program_exit.output):
            text = f"The program '{label}' has succeeded, but its output has more than {MAX_VALUES} values."
            return ToolResult(success=False, error=text, code="result_too_large", meta=meta)
        try:
            output = self._read_output(program_exit.output, label)
        except (ValueError, RecursionError) as error:
            start = program_exit.output[:_MAX_START].decode(errors="replace")
            text = f"The program '{label}' has succeeded, but its output is not JSON: {error}. It begins with: {start}"
            return _make_failed_result(text, meta)
        content: list[Content] = []
        if isinstance(output, Content):
            content.append(output)
        if self.files:
            try:
                files = _read_files(self.files, directory, root, MAX_OUTPUT, label)
            except (OSError, ValueError) as error:
                problem = error.strerror if isinstance(error, OSError) else error
                return _make_failed_result(
                    f"The program '{label}' has succeeded, but its file cannot be read: {problem}", meta
                )
            if output and not content:
                content.append(Text(str(output)))
            content += files
        success_meta = meta if program_exit.code != 0 else None
        if content:
            return ToolResult(success=True, content=content, meta=success_meta)
        return ToolResult(success=True, output=output, meta=success_meta)

    def _read_output(self, data: bytes, label: str) -> Any:
        if self.output == TEXT:
            return data.decode(errors="replace").removesuffix("\n")
        if self.output == JSON:
            return _parse_json(data.decode(errors="replace"))
        if self.output == JSON_LINES:
            return [_parse_json(line) for line in data.decode(errors="replace").split("\n") if line.strip()]
        return make_content(data, self.output, f"command://{quote(label)}/output")

    def _describe_failure(self, program_exit: ProgramExit, label: str) -> str:
        if program_exit.code in self.errors:
            return self.errors[program_exit.code]
        if program_exit.code == EXIT_NOT_EXECUTED and not program_exit.stderr and not program_exit.output:
            return f"The program '{label}' could not be executed (exit code {EXIT_NOT_EXECUTED})."
        cause = f"exit code {program_exit.code}"
        if program_exit.code < 0:
            cause = f"signal {_name_signal(-program_exit.code)}"
        lines = [f"The program '{label}' ended with {cause}."]
        stderr = _take_tail(program_exit.stderr)
        if stderr:
            lines.append(stderr)
        if self.output == TEXT or not stderr:
            output = _take_tail(program_exit.output)
            if output:
                lines.append(output)
        return "\n".join(lines)


def _parse_json(text: str) -> Any:
    return json.loads(text.removeprefix("\ufeff"), parse_constant=_reject_constant)


def _reject_constant(name: str) -> None:
    raise ValueError(f"it has {name}, which JSON does not define")


def make_content(data: bytes, media_type: str, uri: str) -> Content:
    """Return bytes as content of a media type. Text of any type stays readable instead of becoming base64."""
    content = from_bytes(data, media_type, uri)
    if isinstance(content, EmbeddedResource):
        with suppress(UnicodeDecodeError):
            return EmbeddedResource(uri, data.decode(), media_type)
    return content


def _make_failed_result(text: str, meta: Mapping[str, Any]) -> ToolResult:
    return ToolResult(success=False, error=text, code="command_failed", meta=meta)


def _read_files(names: Sequence[str], directory: Path, root: Path, limit: int, label: str) -> list[Content]:
    """Read the files of a result. `limit` is the maximum number of their bytes together.

    Raises OSError, and ValueError for a file outside of `root` or beyond the limit.
    """
    blocks = []
    for name in names:
        path = (directory / name).resolve()
        if not path.is_relative_to(root):
            raise ValueError(f"{name} leads out of the folder that the tool works in")
        if not path.is_file():
            raise ValueError(f"{name} does not exist")
        # One byte beyond the limit shows that the file is larger, without reading all of it.
        with path.open("rb") as file:
            data = file.read(limit + 1)
        limit -= len(data)
        if limit < 0:
            raise ValueError(f"{name} is larger than the limit of the output")
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        blocks.append(make_content(data, media_type, f"command://{quote(label)}/{quote(name)}"))
    return blocks


def _take_tail(data: bytes) -> str:
    text = data.decode(errors="replace").strip()
    return text if len(text) <= _MAX_TAIL else f"[truncated] {text[-_MAX_TAIL:]}"


def _name_signal(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)
