"""A minimal picture and a minimal sound."""

from __future__ import annotations

import base64
import io
import wave

RED_DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC"
)
"""A PNG of one red pixel."""


def silence() -> bytes:
    """A WAV file with a hundredth of a second of silence."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(160))
    return file.getvalue()
