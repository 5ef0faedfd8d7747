"""Names that look alike to users: they differ in case, in forms of characters, or in letters of other scripts."""

from __future__ import annotations

_LATIN = {
    # Cyrillic
    **dict(zip("авекмнорстухѕіјһԁԛԝѵӏ", "abekmhopctyxsijhdqwvl", strict=True)),
    # Greek
    **dict(zip("αεικνορτυχγωϲϳ", "aeiknoptuxywcj", strict=True)),
    # Armenian
    **dict(zip("ցոս", "gnu", strict=True)),
}
"""Small letters, and the Latin ones that look like them or like their capitals."""
_TABLE = str.maketrans(_LATIN)


def to_look(name: str) -> str:
    """Return the look of a name. Users confuse names with the same look."""
    if name.isascii():
        return name.lower()
    # Nearly all names are ASCII.
    import unicodedata

    text = unicodedata.normalize("NFKC", name).casefold()
    return "".join(char for char in text if unicodedata.category(char) != "Cf").translate(_TABLE)
