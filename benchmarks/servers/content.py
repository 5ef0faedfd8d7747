"""The contents of the larger examples: a resource, a report and an image."""

import random
import struct
import zlib

NOTES_URI = "notes://today"
NOTES = "- water the plants\n- call the plumber\n" * 10
REPORT = "".join(f"2026-11-29T12:{n // 60:02}:{n % 60:02} GET /items/{n:04} 200 {n} ms\n" for n in range(2100))
"""100 kB of text with many lines."""


def make_png(size: int = 82) -> bytes:
    """Return a square PNG image of noise, of 20 kB."""
    noise = random.Random(1)
    rows = b"".join(b"\0" + noise.randbytes(3 * size) for _ in range(size))
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    image = b"\x89PNG\r\n\x1a\n"
    for name, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
        image += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return image


PNG = make_png()
