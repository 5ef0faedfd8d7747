"""Builds the authenticator of the HTTP transport from the settings, and reads the tokens of the principals.

While the server runs, `TokenReloader` reads the tokens again when their files change, so that a token can be replaced
or revoked without a restart.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._upstream.trust.credentials import read_secret_file

if TYPE_CHECKING:
    from mcp_bridge._settings import Settings
    from mcp_bridge._transports.http.bearer import Authenticator, StaticTokens

logger = logging.getLogger("mcp_bridge.app")

RELOAD_INTERVAL = 1.0
"""Seconds between two checks of the files. No signal triggers a reload, because SIGHUP shuts the server down."""


def build_authenticator(settings: Settings, token: str | None, tokens: Mapping[str, str]) -> Authenticator | None:
    """Return an authenticator for static tokens and JWTs, or None if no token is required.

    Raises ConfigError.
    """
    jwt = settings.http.jwt
    if token is None and not settings.http.tokens and jwt is None:
        return None
    from mcp_bridge._transports.http.bearer import Authenticator, StaticTokens

    static = StaticTokens(token, tokens)
    if jwt is None:
        return Authenticator(static)
    from mcp_bridge._transports.http.jwt_verifier import JwtOptions, JwtVerifier
    from mcp_bridge._transports.http.key_set import KeySet
    from mcp_bridge._transports.http.protected_resource import ProtectedResource

    options = JwtOptions(issuer=jwt.issuer, audience=jwt.audience, scopes=jwt.scopes)
    url = jwt.resource
    if url is None and jwt.audience.startswith(("https://", "http://")):
        url = jwt.audience
    resource = ProtectedResource(issuer=jwt.issuer, scopes=jwt.scopes, url=url)
    location: str | Path = jwt.jwks
    if "://" not in jwt.jwks:
        location = _find_path(settings.directory, jwt.jwks)
        if not location.is_file():
            error = ConfigError("the file of http.jwt.jwks does not exist", hint=f"Check {jwt.jwks}")
            raise settings.add_location(error, "http", "jwt")
    try:
        return Authenticator(static, JwtVerifier(options, KeySet(location)), resource)
    except ConfigError as error:
        raise settings.add_location(error, "http", "jwt") from None


def read_tokens(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the token of each principal in the settings. Raises ConfigError if one cannot be read."""
    tokens: dict[str, str] = {}
    for name, reference in settings.http.tokens.items():
        try:
            token = _read_reference(settings.directory, reference, environ)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            problem = ConfigError(f"cannot read the token of '{name}': {reason}", hint=f"Check {reference}")
            raise settings.add_location(problem, "http", "tokens", name) from None
        if token in tokens.values():
            problem = ConfigError(
                f"the token of '{name}' also belongs to another name", hint="Give each name its own token"
            )
            raise settings.add_location(problem, "http", "tokens", name)
        tokens[name] = token
    return tokens


def list_known_tokens(directory: Path, references: Iterable[str], environ: Mapping[str, str]) -> list[str]:
    """List the tokens that can be read, so that they are redacted even if the server is not served over HTTP."""
    tokens = []
    for reference in references:
        try:
            tokens.append(_read_reference(directory, reference, environ))
        except (OSError, ValueError):
            continue
    return tokens


class TokenReloader:
    """Reads the named tokens again when the settings file, or a file with a token, has changed.

    If they cannot be read, the earlier ones stay valid. `hide` receives new tokens before they are accepted.
    """

    def __init__(self, path: Path, settings: Settings, hide: Callable[[Iterable[str]], object]) -> None:
        """Raises ConfigError for a token that cannot be read."""
        self._path = path
        self._hide = hide
        self._files = _list_watched_files(path, settings)
        self._stamps = _read_stamps(self._files)
        self.tokens = read_tokens(settings, os.environ)
        self.accepted: StaticTokens | None = None

    async def run(self) -> None:
        """Watch the files until cancelled."""
        while True:
            await anyio.sleep(RELOAD_INTERVAL)
            await self.reload_changes()

    async def reload_changes(self) -> None:
        """Read the tokens again if a file has changed. Never raises."""
        stamps = await to_thread.run_sync(_read_stamps, self._files)
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            tokens = await to_thread.run_sync(self._read_tokens)
        except Exception as error:
            # The file may contain anything. Only a ConfigError is known to contain no secrets.
            text = str(error) if isinstance(error, ConfigError) else type(error).__name__
            logger.error("http.tokens was not reloaded, and the earlier tokens stay valid: %s", text)
            return
        if tokens == self.tokens:
            return
        self._hide(tokens.values())
        self.tokens = tokens
        if self.accepted is not None:
            self.accepted.replace_named(tokens)
        logger.warning("http.tokens was reloaded: %d tokens", len(tokens))

    def _read_tokens(self) -> dict[str, str]:
        from mcp_bridge._settings import load

        settings = load(self._path, os.environ)
        files = _list_watched_files(self._path, settings)
        # The files to watch are replaced before they are read, so that a file which cannot be read yet is watched too.
        if files != self._files:
            self._files = files
            self._stamps = _read_stamps(files)
        return read_tokens(settings, os.environ)


def _read_reference(directory: Path, reference: str, environ: Mapping[str, str]) -> str:
    """Return the token at a reference. Raises OSError and ValueError, without the token."""
    scheme, _, place = reference.partition(":")
    if scheme == "env":
        token = environ.get(place, "")
        if not token:
            raise ValueError("the environment variable is not set")
    else:
        try:
            token = read_secret_file(_find_path(directory, place))
        except UnicodeDecodeError:
            raise ValueError("the file is not text") from None
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("a token is printable ASCII without spaces")
    return token


def _list_watched_files(path: Path, settings: Settings) -> list[Path]:
    files = [path]
    for reference in settings.http.tokens.values():
        scheme, _, place = reference.partition(":")
        if scheme == "file":
            files.append(_find_path(settings.directory, place))
    return files


def _read_stamps(files: Iterable[Path]) -> list[tuple[int, ...] | None]:
    """Return the time of change, the size and the inode of each file; None for one that does not exist."""
    stamps: list[tuple[int, ...] | None] = []
    for file in files:
        try:
            status = file.stat()
            stamps.append((status.st_mtime_ns, status.st_size, status.st_ino))
        except OSError:
            stamps.append(None)
    return stamps


def _find_path(directory: Path, path: str) -> Path:
    return directory / Path(path).expanduser()
