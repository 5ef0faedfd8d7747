"""References to credentials in the settings of upstreams: `env:NAME`, `file:PATH` and `keyring:SERVICE/NAME`.

In a header, the scheme of `Authorization` may precede the reference: `Bearer env:TOKEN`. The path of a file begins with
`/` or `~/`, because values such as `file:data.db` are addresses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mcp_bridge._contracts.errors import SourceError

MAX_CREDENTIAL = 64 * 1024
"""The maximum number of bytes that are read from a file with a credential."""
_REFERENCE = re.compile(
    r"(?P<scheme>(?i:basic|bearer|token) )?"
    r"(?:env:(?P<variable>[A-Za-z_][A-Za-z0-9_]*)|file:(?P<file>(?:/(?!/)|~/)[^?#\n]+)"
    r"|keyring:(?P<service>[^/\n]+)/(?P<name>[^\n]+))"
)


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential.

    Attributes:
        value: The whole value, such as `Bearer abc`.
        secret: The secret in it, such as `abc`.
    """

    value: str
    secret: str


def has_reference(value: str) -> bool:
    """Whether a value is a reference to a credential."""
    return _REFERENCE.fullmatch(value) is not None


def find_variables(value: object) -> list[str]:
    """Return the environment variables of all references in a value, and in the lists and mappings in it."""
    if isinstance(value, Mapping):
        value = list(value.values())
    names = []
    if isinstance(value, list):
        for item in value:
            names += find_variables(item)
    elif isinstance(value, str):
        match = _REFERENCE.fullmatch(value)
        if match is not None and match["variable"] is not None:
            names.append(match["variable"])
    return names


def read_credential(reference: str, key: str, environ: Mapping[str, str]) -> Credential:
    """Return the credential of a reference. May block. Raises SourceError with the `key`, but without values."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        raise SourceError(f"{key}: this is not a reference to a credential")
    if match["variable"] is not None:
        secret = environ.get(match["variable"], "")
        problem = f"the environment variable {match['variable']} is not set"
    elif match["file"] is not None:
        secret = _read_file(Path(match["file"]).expanduser(), key)
        problem = f"{match['file']} is empty"
    else:
        service, name = match["service"], match["name"]
        secret = _read_keyring(service, name, key)
        problem = f"the keyring has no '{name}' of '{service}'"
    if not secret:
        raise SourceError(f"{key}: {problem}")
    return Credential((match["scheme"] or "") + secret, secret)


def read_credentials(values: Mapping[str, str], key: str, environ: Mapping[str, str]) -> dict[str, Credential]:
    """Return the credentials of those values that are references, by name. May block.

    Raises SourceError with `key`, the key of the values in the settings.
    """
    credentials: dict[str, Credential] = {}
    for name, value in values.items():
        if has_reference(value):
            credentials[name] = read_credential(value, f"{key}.{name}", environ)
    return credentials


def read_secret_file(path: Path) -> str:
    """Return the secret in a file. Raises OSError, and UnicodeDecodeError for a file that is not UTF-8 text."""
    with path.open("rb") as file:
        return file.read(MAX_CREDENTIAL).decode().strip()


def _read_file(path: Path, key: str) -> str:
    try:
        return read_secret_file(path)
    except UnicodeDecodeError:
        raise SourceError(f"{key}: {path} is not UTF-8 text") from None
    except OSError as error:
        raise SourceError(f"{key}: {path} cannot be read: {error.strerror or error}") from error


def _read_keyring(service: str, name: str, key: str) -> str:
    try:
        # Imported late, because it is an extra, and looks for its backends when it is imported.
        import keyring
        import keyring.errors
    except ImportError as error:
        raise SourceError(f"{key}: install the extra 'keyring' to read credentials from a keyring") from error
    try:
        return keyring.get_password(service, name) or ""
    except keyring.errors.KeyringError as error:
        raise SourceError(f"{key}: the keyring cannot be read: {error}") from error
