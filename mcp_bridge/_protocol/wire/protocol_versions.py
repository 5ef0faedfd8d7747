"""The features of protocol versions. Versions are dates, so they compare as text."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

AUDIO: Final = "2025-03-26"
"""The first version with audio content and tool annotations."""
STRUCTURED: Final = "2025-06-18"
"""The first version with outputSchema, structuredContent, titles, resource links and `_meta` on tools."""
ICONS: Final = "2025-11-25"
"""The first version with icons."""
HANDSHAKE: Final = "2025-11-25"
"""The last version with a handshake."""
STATELESS: Final = "2026-07-28"
"""The first version without a handshake: resultType, caching hints, any JSON value as structuredContent."""

IN_PROCESS: Final = ""
"""The version for data that does not leave the process. It has all features."""

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE)
STATELESS_VERSIONS: Final = (STATELESS,)


@lru_cache(maxsize=64)
def has_feature(version: str, feature: str) -> bool:
    """Whether `version` has the features of the version `feature`. `IN_PROCESS` has those of all versions."""
    return not version or version >= feature
