"""Normalizes URIs: one form is for comparisons, and another for the patterns of policies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from urllib.parse import quote, unquote, unquote_to_bytes

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(?=:)")
_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
"""A percent sign without an escape."""
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_ALWAYS_ENCODED = re.compile(r"[][:/?#@!$&'()*+,;=%{}\s\x00-\x1f\x7f\udc80-\udcff]")
"""Separators of parts of a URI (RFC 3986, section 2.2) or of a template, and characters that a URI cannot contain.

Surrogates represent bytes outside of UTF-8.
"""
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f]")
_SLASHES = re.compile(r"[/\\]+")
_SEPARATORS = re.compile(r"[/\\?#&=;]")


def normalize_uri(uri: str) -> str:
    """Return the normal form of a URI or a template, for comparisons (RFC 3986, section 6.2.2).

    The scheme is in lower case. Escapes are decoded, except for separators of parts, and blanks are encoded. Two URIs
    with the same form name the same resource.
    """
    if "%" in uri:
        uri = _ESCAPES.sub(_normalize_escapes, _STRAY_PERCENT.sub("%25", uri))
    uri = _BLANKS.sub(_encode, uri)
    return _SCHEME.sub(lambda match: match[0].lower(), uri, count=1) if _SCHEME.match(uri) else uri


def _normalize_escapes(match: re.Match[str]) -> str:
    # Bytes outside of UTF-8 become surrogates, and are encoded again.
    text = unquote_to_bytes(match[0]).decode(errors="surrogateescape")
    return _ALWAYS_ENCODED.sub(_encode, text)


def _encode(match: re.Match[str]) -> str:
    return quote(match[0], safe="", errors="surrogateescape")


def quote_uri(uri: str) -> str:
    """Encode the characters that a URI cannot contain, such as letters outside of ASCII."""
    return quote(uri, safe="%][:/?#@!$&'()*+,;=")


def find_ambiguity(uri: str) -> str | None:
    """Return why a program may take this URI for that of another resource, or None.

    Steps such as `..` are among the reasons even if they stay within the URI, because after a symbolic link they lead
    elsewhere.
    """
    try:
        text = unquote(uri, errors="strict")
    except UnicodeDecodeError:
        return "it has an escape (%) that is not UTF-8"
    if "\0" in text:
        return "it contains a null character"
    return find_unsafe_step(text, _SEPARATORS)


def find_unsafe_step(path: str, separators: re.Pattern[str] = _SLASHES) -> str | None:
    """Return why a path could mean another place, because it has a step `.` or `..`, or None."""
    for step in separators.split(path):
        if step in (".", ".."):
            return f"'{step}' is a step of its path. Write the path without it"
    return None


def includes_uri(patterns: Sequence[str], uri: str) -> bool:
    """Whether a pattern matches a URI, and no pattern with `!` before it does. Without patterns, the answer is yes.

    Escapes such as `%2D` are decoded, because resources receive decoded variables. Steps `.` and `..` of paths are
    resolved, repeated slashes become one, and letters are composed (NFC), as in file systems.
    """
    exclude, include = _split_patterns(tuple(patterns))
    uri = _flatten(uri)
    if any(fnmatchcase(uri, pattern) for pattern in exclude):
        return False
    return not include or any(fnmatchcase(uri, pattern) for pattern in include)


@lru_cache(maxsize=256)
def _split_patterns(patterns: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the patterns after `!`, and all others, in the form for matching."""
    exclude, include = [], []
    for pattern in patterns:
        if pattern.startswith("!"):
            exclude.append(_flatten(pattern[1:]))
        else:
            include.append(_flatten(pattern))
    return exclude, include


def _flatten(uri: str) -> str:
    """Return the form in which policies match a URI or a pattern. Different URIs may have the same form."""
    text = unquote(normalize_uri(uri))
    if not text.isascii():
        # Nearly all URIs are ASCII, so a start usually does not need this module.
        import unicodedata

        text = unicodedata.normalize("NFC", text)
    scheme, separator, path = text.partition("://")
    steps: list[str] = []
    for step in _SLASHES.split(path):
        if step == "..":
            # The first step is the authority, or empty before an absolute path.
            del steps[max(len(steps) - 1, 1) :]
        elif step != ".":
            steps.append(step)
    return scheme + separator + "/".join(steps)
