"""Escapes control characters and invisible characters in third-party text, for terminals and logs.

Such characters could hide or forge a part of the output.
"""

from __future__ import annotations


def escape_line(line: str) -> str:
    """Escape the control and invisible characters of a line, including line breaks, but not tabs."""
    # Each line of the log passes through here, and nearly all are printable.
    if line.isprintable():
        return line
    escaped_line = ""
    for char in line:
        if char.isprintable() or char == "\t":
            escaped_line += char
        else:
            escaped_line += char.encode("unicode_escape").decode()
    return escaped_line


def escape_text(text: str) -> str:
    """Escape each line of a text."""
    return "\n".join(escape_line(line) for line in text.split("\n"))


def escape_json(text: str) -> str:
    """Escape the same characters in JSON. This does not change its value, because they occur only in strings."""
    if text.isprintable():
        return text
    escaped_text = ""
    for char in text:
        escaped_text += char if char.isprintable() or char in "\t\r\n" else _escape_unit(char)
    return escaped_text


def _escape_unit(char: str) -> str:
    # JSON writes characters beyond the first plane as two surrogates (RFC 8259, section 7).
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2]):04x}" for at in range(0, len(units), 2))
