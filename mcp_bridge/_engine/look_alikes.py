"""Recognises names that look alike to users: they differ in case, in forms of characters, or in letters of scripts.

Users could mistake a tool of one source for a similar one of another, so `entry_table.py` treats such names as equal.
"""

from __future__ import annotations

_LATIN = {
    # Cyrillic
    **dict(zip("авекмнорстухѕіјһԁԛԝѵӏ", "abekmhopctyxsijhdqwvl", strict=True)),
    # Greek
    **dict(zip("αεικνορτυχγωϲϳ", "aeiknoptuxywcj", strict=True)),
    # Armenian
    **dict(zip("ցոս", "gnu", strict=True)),
}
"""Small letters, and the Latin letters that look like them or like their capitals."""
_LATIN_TABLE = str.maketrans(_LATIN)


def to_look(name: str) -> str:
    """Return the same text for all names with the same look."""
    if name.isascii():
        return name.lower()
    # Nearly all names are ASCII, so a start usually does not need this module.
    import unicodedata

    text = unicodedata.normalize("NFKC", name).casefold()
    # Characters of the category Cf, such as the zero-width space, are invisible.
    visible_text = "".join(char for char in text if unicodedata.category(char) != "Cf")
    return visible_text.translate(_LATIN_TABLE)
