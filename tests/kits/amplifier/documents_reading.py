"""The code examples of a document: fenced ones, and others by their shape."""

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
    """One example: its language and its text."""

    document: str
    number: int
    language: str
    text: str

    @property
    def title(self) -> str:
        """The first line except imports, comments and decorators."""
        lines = [line for line in self.text.splitlines() if line.strip() and line.startswith(tuple(_LETTERS))]
        return next((line for line in lines if not line.startswith(("from ", "import "))), self.text.splitlines()[0])


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_["


def examples(document: str) -> list[Example]:
    """Every example of a document, in order."""
    text = (FOLDER / document).read_text("utf-8")
    blocks = _FENCE.findall(text) if "```" in text else list(unfenced(text.splitlines()))
    return [Example(document, number, language, code) for number, (language, code) in enumerate(blocks)]


def unfenced(lines: list[str]) -> list[tuple[str, str]]:
    """The examples of a text without fences: a block begins where code begins, and ends before the next prose."""
    blocks, at = [], 0
    while at < len(lines):
        language = _language(lines, at)
        if language is None:
            at += 1
            continue
        end = _end(lines, at, language)
        blocks.append((language, "\n".join(lines[at:end]).strip() + "\n"))
        at = end
    return blocks


def _language(lines: list[str], at: int) -> str | None:
    """Return the language of the code block that begins at this line, or None for prose."""
    line = lines[at]
    following = lines[at + 1] if at + 1 < len(lines) else ""
    if _BASH.match(line):
        return "bash"
    if _TOML.match(line):
        return "toml"
    if _YAML.match(line) and following.startswith("  "):
        return "yaml"
    return "python" if _PYTHON.match(line) and _is_python("\n".join(lines[at : _end(lines, at, "python")])) else None


def _end(lines: list[str], at: int, language: str) -> int:
    """Return the line after an example: a paragraph without code, or of another language."""
    end = at + 1
    while end < len(lines):
        line, before = lines[end], lines[end - 1]
        begins = line and not before and not line.startswith((" ", ")", "]", "}"))
        if begins and (language != "python" or not _PYTHON.match(line)):
            break
        end += 1
    return end


def _is_python(text: str) -> bool:
    try:
        ast.parse("async def example():\n" + "\n".join(f"    {line}" for line in text.splitlines()))
    except SyntaxError:
        return False
    return True
