"""The forms of a secret in the output of programs: as it is, escaped in any usual way, or in base64."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

MIN_LENGTH = 4
"""Shorter values cannot be distinguished from ordinary text."""
_MIN_PART_LENGTH = 8
"""The minimum length of a separate part: a line of a secret, or a piece of its base64."""
_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s:@]*:([^/?#\s]+)@")
_PIECES = re.compile(r"[A-Za-z0-9_.-]+|\\+|.", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
"""Characters without an escape in almost all programs."""
_SHORTEST_LINE = 56
"""The shortest lines of base64 to recognise; the usual ones have 60 to 76 characters."""
_NAMED_ESCAPES = {"\n": "n", "\t": "t", "\r": "r", "\b": "b", "\f": "f"}
_BACKSLASHES = r"\\{%d,%d}+"
"""JSON in JSON in JSON has eight backslashes for one. Possessive, so that no text takes more than linear time."""
_MOST = 8
_BREAK = r"(?:\s|\\{1,8}+[nrt]|%0[ADad]){0,40}+"
"""A line break in base64, with an indentation, and as JSON and URLs escape it."""


def list_parts(secret: str) -> set[str]:
    """List a secret, its long lines, and the passwords of URLs in it, without those that are too short."""
    parts = {secret, secret.strip()}
    for password in _PASSWORD.findall(secret):
        parts |= {password, unquote(password)}
    for line in map(str.strip, secret.splitlines()):
        if len(line) >= _MIN_PART_LENGTH:
            parts.add(line)
    return {part for part in parts if len(part) >= MIN_LENGTH}


class SecretForm(NamedTuple):
    """A text to find, as it is or, if `is_base64`, with line breaks in it.

    `tail` is the last character of base64 that ends with the secret.
    """

    text: str
    is_base64: bool = False
    tail: str = ""

    @property
    def landmarks(self) -> list[str]:
        """Plain texts, one of them in each occurrence of the form. They are searched much faster than the pattern."""
        if not self.is_base64 or len(self.text) < _MIN_PART_LENGTH:
            return [_find_longest(self.text)]
        # The first line has at most one line break.
        first = self.text[:_SHORTEST_LINE]
        middle = len(first) // 2
        return [_find_longest(first[:middle]), _find_longest(first[middle:])]

    @property
    def pattern(self) -> str:
        """A regular expression for all spellings."""
        if self.is_base64:
            pattern = _BREAK.join(map(_match_base64, self.text))
            if self.tail:
                pattern += f"(?:{_BREAK}{_match_base64(self.tail)})?"
            return pattern
        pieces = _PIECES.findall(self.text)
        return "".join(map(_match_piece, pieces, ["", *pieces]))


def list_forms(text: str) -> Iterator[SecretForm]:
    """Yield the forms of a part of a secret. Base64 has three, by the position of the text in longer data."""
    yield SecretForm(text)
    data = text.encode(errors="surrogatepass")
    encoded_text, length = b64encode(data).decode().rstrip("="), len(data) * 8 // 6
    yield SecretForm(encoded_text[:length], is_base64=True, tail=encoded_text[length:])
    # These are the bytes before the text, and the first character that does not depend on them.
    for before, first in ((1, 2), (2, 3)):
        piece = b64encode(bytes(before) + data).decode()[first : (before + len(data)) * 8 // 6]
        if len(piece) >= _MIN_PART_LENGTH:
            yield SecretForm(piece, is_base64=True)


def _find_longest(text: str) -> str:
    return max(_PLAIN.findall(text), key=len, default="")


def _match_piece(piece: str, previous: str) -> str:
    """Return the pattern of plain characters, of backslashes, or of one other character."""
    if _PLAIN.match(piece):
        return re.escape(piece)
    if piece[0] == "\\":
        count = len(piece)
        escapes = "|".join(_list_escapes("\\", least=1))
        return f"(?:(?:{escapes}){{{count}}}|{_BACKSLASHES % (count, _MOST * count)})"
    # The backslashes may have been matched with the previous ones.
    least = 0 if previous[:1] == "\\" else 1
    spellings = [_BACKSLASHES % (0, _MOST) + re.escape(piece), *_list_escapes(piece, least=least)]
    return f"(?:{'|'.join(spellings)})"


def _match_base64(character: str) -> str:
    if character.isalnum():
        return character
    url_character = "-" if character == "+" else "_"
    return f"(?:{url_character}|{_match_piece(character, '')})"


def _list_escapes(character: str, *, least: int) -> Iterator[str]:
    """Yield patterns of the escapes of a character in program text and JSON, URLs, and HTML."""
    # Only texts with secrets need this table.
    from html.entities import codepoint2name

    code, slashes = ord(character), _BACKSLASHES % (least, _MOST)
    data = character.encode(errors="surrogatepass")
    if character in _NAMED_ESCAPES:
        yield slashes + _NAMED_ESCAPES[character]
    units = character.encode("utf-16-be", errors="surrogatepass").hex()
    yield "".join(f"{slashes}u{_ignore_case(units[at : at + 4])}" for at in range(0, len(units), 4))
    yield "".join(f"{slashes}x{_ignore_case(f'{byte:02x}')}" for byte in data)
    if 0x7F < code <= 0xFF:
        yield f"{slashes}x{_ignore_case(f'{code:02x}')}"
    elif code > 0xFFFF:
        yield f"{slashes}U{_ignore_case(f'{code:08x}')}"
    yield "".join(f"%(?:25){{0,3}}{_ignore_case(f'{byte:02x}')}" for byte in data)
    if character == " ":
        yield r"\+"
    entity = f"#0*{code}|#[xX]0*{_ignore_case(f'{code:x}')}"
    name = "apos" if code == ord("'") else codepoint2name.get(code)
    if name is not None:
        entity = f"{entity}|{name}"
    yield f"&(?:amp;){{0,3}}(?:{entity});"


def _ignore_case(digits: str) -> str:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits)
