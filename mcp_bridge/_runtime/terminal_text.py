"""Third-party text for terminals and logs, with control characters and invisible ones as escapes."""

from __future__ import annotations


def escape_line(line: str) -> str:
    """Escape the control and invisible characters of a line, including line breaks, but not tabs."""
    # Each line of the log passes through here.
    if line.isprintable():
        return line
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode() for char in line
    )


def escape_text(text: str) -> str:
    """Escape each line of a text."""
    return "\n".join(map(escape_line, text.split("\n")))


def escape_json(text: str) -> str:
    """Escape the same characters in JSON. The value stays the same, because they occur only in strings."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\t\r\n" else _escape_unit(char) for char in text)


def _escape_unit(char: str) -> str:
    # JSON writes characters beyond the first plane as two surrogates (RFC 8259, section 7).
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{int.from_bytes(units[at : at + 2]):04x}" for at in range(0, len(units), 2))
