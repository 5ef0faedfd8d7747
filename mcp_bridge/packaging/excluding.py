"""Files that are never packed, whoever asks: secrets, histories and what programs keep for themselves."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

NEVER = (
    *(".env", ".env.*", ".envrc", "*.env"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.keystore", "*.jks", "*.ppk", "id_rsa*", "id_ed25519*", "id_ecdsa*"),
    *(".netrc", ".npmrc", ".pypirc", ".pgpass", ".htpasswd", ".git-credentials", "credentials.json"),
    *(".aws", ".azure", ".docker", ".gnupg", ".kube", ".ssh"),
    *(".git", ".hg", ".svn", ".gitignore", ".ds_store", "thumbs.db"),
    *(
        "__pycache__",
        "*.pyc",
        "*.pyo",
        ".venv",
        "venv",
        "node_modules",
        ".*_cache",
        "*.egg-info",
        ".tox",
        ".hypothesis",
    ),
    *("*.log", "*.mcpb", "*.whl", "*.sqlite-wal", "*.sqlite-shm"),
)
"""Patterns of names; one that fits any part of a path is enough."""


def never_packed(path: Path) -> bool:
    """Whether a file, by its path inside the project, stays where it is."""
    return any(fnmatchcase(part.lower(), pattern) for part in path.parts for pattern in NEVER)
