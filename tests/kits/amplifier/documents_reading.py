"""Finds the code examples of a document.

One document is Markdown, with code in fences. The others are plain text without any marks, so a line begins an example
if it looks like code (`_PYTHON` and the other patterns), and the next line of prose ends it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "documents"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_TOML = re.compile(r"^\[project\.")
_YAML = re.compile(r"^[a-z]+:$")
_BASH = re.compile(r"^amplifier module ")
# The beginning of an example in Python: a comment or a decorator, a definition, an import, a statement, an assignment.
# "Structural validation" is a comment in an example of a shell command.
_PYTHON = re.compile(
    r"""
      (\#\ (?!Structural\ validation)) | @
    | (async\ def|def|class)\ .+[(:]$ | (async\ def|def|class)\ .+:$
    | (from\ [\w.]+\ import\ |import\ \w) | (if|for|while|with|assert|await|return)\ .+
    | [\w., ]+\ =\ .+ | (self|coordinator|scored|recorder)\.[\w.]+.*
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Example:
    """One example of a document. `number` counts the examples of the document."""

    document: str
    number: int
    language: str
    text: str

    @property
    def title(self) -> str:
        """The first line that is no import, comment or decorator, or else the first line."""
        lines = self.text.splitlines()
        for line in lines:
            if re.match(r"[a-zA-Z_\[]", line) and not line.startswith(("from ", "import ")):
                return line
        return lines[0]


def read_examples(document: str) -> list[Example]:
    """Return the examples of a document, in order."""
    text = (FOLDER / document).read_text("utf-8")
    blocks = _FENCE.findall(text) if "```" in text else list(find_unfenced_blocks(text.splitlines()))
    return [Example(document, number, language, code) for number, (language, code) in enumerate(blocks)]


def find_unfenced_blocks(lines: list[str]) -> list[tuple[str, str]]:
    """Return the examples of a text without fences, as pairs of language and code."""
    blocks, start = [], 0
    while start < len(lines):
        language = _find_language(lines, start)
        if language is None:
            start += 1
            continue
        end = _find_end(lines, start, language)
        blocks.append((language, "\n".join(lines[start:end]).strip() + "\n"))
        start = end
    return blocks


def _find_language(lines: list[str], start: int) -> str | None:
    """Return the language of the code block that begins at this line, or None for prose."""
    line = lines[start]
    following = lines[start + 1] if start + 1 < len(lines) else ""
    if _BASH.match(line):
        return "bash"
    if _TOML.match(line):
        return "toml"
    if _YAML.match(line) and following.startswith("  "):
        return "yaml"
    if _PYTHON.match(line) and _is_python("\n".join(lines[start : _find_end(lines, start, "python")])):
        return "python"
    return None


def _find_end(lines: list[str], start: int, language: str) -> int:
    """Return the number of the line after an example: the first line of a paragraph that does not continue the code."""
    end = start + 1
    while end < len(lines):
        line, previous_line = lines[end], lines[end - 1]
        begins_paragraph = line and not previous_line and not line.startswith((" ", ")", "]", "}"))
        if begins_paragraph and (language != "python" or not _PYTHON.match(line)):
            break
        end += 1
    return end


def _is_python(text: str) -> bool:
    try:
        ast.parse("async def example():\n" + "\n".join(f"    {line}" for line in text.splitlines()))
    except SyntaxError:
        return False
    return True
