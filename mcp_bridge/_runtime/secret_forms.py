"""Lists the forms of a secret in the output of programs: unchanged, escaped in any usual way, or in Base64.

`Redactor` searches for them in two steps. First it looks for the landmarks of each form, short plain texts in every
spelling. Only if one is there, it compiles the regular expression of the form. A secret `a"b-password`, for example,
has the landmark `b-password`, and its pattern also matches `a\\"b-password`, `a%22b-password` and `a&quot;b-password`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

MIN_LENGTH = 4
"""Shorter values cannot be distinguished from ordinary text."""
_MIN_PART_LENGTH = 8
"""The minimum length of a line of a secret, and of a piece of its Base64, to search for them separately."""
_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#\s:@]*:([^/?#\s]+)@")
_PIECES = re.compile(r"[A-Za-z0-9_.-]+|\\+|.", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
"""Characters that almost no program escapes."""
_SHORTEST_LINE = 56
"""The minimum length of lines of Base64 for which line breaks are recognised. Usual lines have 60 to 76 characters."""
_NAMED_ESCAPES = {"\n": "n", "\t": "t", "\r": "r", "\b": "b", "\f": "f"}
_MAX_BACKSLASHES = 8
"""The maximum number of backslashes that replace one. JSON in JSON in JSON has eight."""
_BREAK = r"(?:\s|\\{1,8}+[nrt]|%0[ADad]){0,40}+"
"""A line break in Base64 with an indentation, or their escapes in JSON and URLs."""


def list_parts(secret: str) -> set[str]:
    """List the texts to search for: a secret, its long lines, and the passwords of URLs in it, without short ones."""
    parts = {secret, secret.strip()}
    for password in _PASSWORD.findall(secret):
        parts |= {password, unquote(password)}
    for line in map(str.strip, secret.splitlines()):
        if len(line) >= _MIN_PART_LENGTH:
            parts.add(line)
    return {part for part in parts if len(part) >= MIN_LENGTH}


class SecretForm(NamedTuple):
    """A text to search for.

    Attributes:
        text: The text.
        is_base64: Whether the text is Base64, so that it may contain line breaks.
        tail: The next character of the Base64, which follows the text only if the encoded data ends with the secret.
    """

    text: str
    is_base64: bool = False
    tail: str = ""

    @property
    def landmarks(self) -> list[str]:
        """Plain texts. Each occurrence of the form has at least one of them. Searching them is fast."""
        if not self.is_base64 or len(self.text) < _MIN_PART_LENGTH:
            return [_find_longest_plain(self.text)]
        # A text no longer than a line of Base64 has at most one line break, so one of its halves has none.
        first_line = self.text[:_SHORTEST_LINE]
        middle = len(first_line) // 2
        return [_find_longest_plain(first_line[:middle]), _find_longest_plain(first_line[middle:])]

    @property
    def pattern(self) -> str:
        """A regular expression for all spellings."""
        if self.is_base64:
            pattern = _BREAK.join(map(_match_base64, self.text))
            if self.tail:
                pattern += f"(?:{_BREAK}{_match_base64(self.tail)})?"
            return pattern
        pattern = ""
        previous = ""
        for piece in _PIECES.findall(self.text):
            pattern += _match_piece(piece, previous)
            previous = piece
        return pattern


def list_forms(text: str) -> Iterator[SecretForm]:
    """Yield the forms of a text of `list_parts`.

    Base64 encodes each group of 3 bytes as 4 characters. The text may start at any of the three places of a group, so
    it has three forms. Each contains only the characters that do not depend on data before or after the text.
    """
    yield SecretForm(text)
    data = text.encode(errors="surrogatepass")
    encoded_text = b64encode(data).decode().rstrip("=")
    length = len(data) * 8 // 6
    yield SecretForm(encoded_text[:length], is_base64=True, tail=encoded_text[length:])
    # One byte before the text influences the first two characters, two bytes influence three.
    for preceding_bytes, first in ((1, 2), (2, 3)):
        end = (preceding_bytes + len(data)) * 8 // 6
        piece = b64encode(bytes(preceding_bytes) + data).decode()[first:end]
        if len(piece) >= _MIN_PART_LENGTH:
            yield SecretForm(piece, is_base64=True)


def _find_longest_plain(text: str) -> str:
    """Return the longest part of a text without escapes in any program."""
    return max(_PLAIN.findall(text), key=len, default="")


def _match_piece(piece: str, previous: str) -> str:
    """Return the pattern of a piece: plain characters, backslashes, or one other character."""
    if _PLAIN.match(piece):
        return re.escape(piece)
    if piece[0] == "\\":
        count = len(piece)
        escapes = "|".join(_list_escapes("\\", least=1))
        return f"(?:(?:{escapes}){{{count}}}|{_match_backslashes(count, _MAX_BACKSLASHES * count)})"
    # The pattern of backslashes before this piece may already have consumed the backslashes of its escape.
    least = 0 if previous[:1] == "\\" else 1
    spellings = [_match_backslashes(0, _MAX_BACKSLASHES) + re.escape(piece), *_list_escapes(piece, least=least)]
    return f"(?:{'|'.join(spellings)})"


def _match_backslashes(least: int, most: int) -> str:
    """Return a pattern for a number of backslashes. It is possessive, so that no text takes more than linear time."""
    return rf"\\{{{least},{most}}}+"


def _match_base64(character: str) -> str:
    """Return the pattern of a character of Base64, also in the alphabet for URLs (RFC 4648, section 5)."""
    if character.isalnum():
        return character
    url_character = "-" if character == "+" else "_"
    return f"(?:{url_character}|{_match_piece(character, '')})"


def _list_escapes(character: str, *, least: int) -> Iterator[str]:
    """Yield the patterns of the escapes of a character in program text and JSON, URLs, and HTML.

    `least` is the minimum number of backslashes.
    """
    # Few servers have secrets, so the others do not import this table.
    from html.entities import codepoint2name

    code = ord(character)
    slashes = _match_backslashes(least, _MAX_BACKSLASHES)
    data = character.encode(errors="surrogatepass")
    if character in _NAMED_ESCAPES:
        yield slashes + _NAMED_ESCAPES[character]
    # JSON has \u00e9, or \ud83d\ude00 for a character of two units.
    units = character.encode("utf-16-be", errors="surrogatepass").hex()
    yield "".join(f"{slashes}u{_ignore_case(units[at : at + 4])}" for at in range(0, len(units), 4))
    # Program text has \xc3\xa9 for the bytes in UTF-8, and \xe9 or \U0001f600 for the character.
    yield "".join(f"{slashes}x{_ignore_case(f'{byte:02x}')}" for byte in data)
    if 0x7F < code <= 0xFF:
        yield f"{slashes}x{_ignore_case(f'{code:02x}')}"
    elif code > 0xFFFF:
        yield f"{slashes}U{_ignore_case(f'{code:08x}')}"
    # A URL has %C3%A9, and a URL in a URL %25C3%25A9.
    yield "".join(f"%(?:25){{0,3}}{_ignore_case(f'{byte:02x}')}" for byte in data)
    if character == " ":
        yield r"\+"
    # HTML has &#233;, &#xe9; or &eacute;, and HTML in HTML &amp;eacute;.
    entity = f"#0*{code}|#[xX]0*{_ignore_case(f'{code:x}')}"
    name = "apos" if code == ord("'") else codepoint2name.get(code)
    if name is not None:
        entity = f"{entity}|{name}"
    yield f"&(?:amp;){{0,3}}(?:{entity});"


def _ignore_case(digits: str) -> str:
    pattern = ""
    for digit in digits:
        pattern += f"[{digit}{digit.upper()}]" if digit.isalpha() else digit
    return pattern
