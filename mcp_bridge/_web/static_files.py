"""The files of the page. They are the same for everyone, and contain no data."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from mcp_bridge._transports.http.request import HttpRequest, make_rejection
from mcp_bridge._transports.http1.asgi import Headers

FOLDER = Path(__file__).parent / "static"
FILES = {
    "": ("page.html", b"text/html; charset=utf-8"),
    "/page/app.js": ("app.js", b"text/javascript; charset=utf-8"),
    "/page/app.css": ("app.css", b"text/css; charset=utf-8"),
    "/page/icon.svg": ("icon.svg", b"image/svg+xml"),
}
"""The file and the media type of each path."""
_CONTENT_SECURITY_POLICY = (
    b"default-src 'self'; img-src 'self' blob:; media-src 'self' blob:; object-src 'none'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Headers = (
    (b"content-security-policy", _CONTENT_SECURITY_POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class StaticFiles:
    """Serves the files of a folder, and reads each of them only once."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._contents: dict[str, tuple[bytes, bytes]] = {}

    async def serve(self, request: HttpRequest, path: str) -> None:
        """Send the file of a path. Raises HttpRejection."""
        request.check_method("GET", "HEAD")
        name, media_type = FILES[path]
        data, tag = self._read_file(name)
        headers = (*SECURITY_HEADERS, (b"etag", tag), (b"cache-control", b"no-cache"))
        if tag in request.headers.get(b"if-none-match", b""):
            await request.send_response(304, headers, b"")
        else:
            await request.send_response(200, (*headers, (b"content-type", media_type)), data)

    def _read_file(self, name: str) -> tuple[bytes, bytes]:
        """Return the content of a file and its entity tag."""
        if name not in self._contents:
            try:
                data = (self._folder / name).read_bytes()
            except OSError:
                raise make_rejection(404, f"The page is incomplete: {name} is missing. Reinstall mcp-bridge.") from None
            self._contents[name] = data, b'"%b"' % sha256(data).hexdigest()[:32].encode()
        return self._contents[name]
