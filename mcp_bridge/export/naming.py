"""Names that a format takes, each told apart from all others, and the way back."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from mcp_bridge.wire.names import client_name

LONGEST = 64
"""What every vendor takes; some take more."""
_FIRST = 8
"""How many digits of a hash tell a name apart at first; more where that is somebody else's name."""

_NO_LETTERS = frozenset("0123456789-")


def exported_names(names: Iterable[str], *, begins_with_letter: bool = False) -> dict[str, str]:
    """For each name the one it has in the format: `[A-Za-z0-9_-]{1,64}`, the same in whatever order they come.

    A name that fits stays as it is. `begins_with_letter` is for formats whose names begin with a letter or `_`.
    """
    given = sorted(set(names))
    made = {name: name for name in given if _fits(name, begins_with_letter)}
    taken = set(made)
    for name in given:
        if name not in made:
            made[name] = _free(name, taken, begins_with_letter)
            taken.add(made[name])
    return made


def _fits(name: str, begins_with_letter: bool) -> bool:
    return client_name(name) == name and not (begins_with_letter and name[0] in _NO_LETTERS)


def _free(name: str, taken: set[str], begins_with_letter: bool) -> str:
    """A name that is nobody's: with a hash of this one, of as many digits as that takes."""
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    plain = client_name(name)
    stem = plain if plain == name else plain.rpartition("_")[0]
    stem = f"_{stem}" if begins_with_letter and stem[:1] in _NO_LETTERS else stem
    for digits in range(_FIRST, LONGEST - 1):
        candidate = f"{stem[: LONGEST - 1 - digits]}_{digest[:digits]}"
        if candidate not in taken:
            return candidate
    raise AssertionError("two names of one SHA-256")  # pragma: no cover
