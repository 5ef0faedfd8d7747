"""Reads the signatures of functions of authors and libraries, on every version of Python."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

_FORWARDREF = 3
"""annotationlib.Format.FORWARDREF. From Python 3.14 on, the default format raises NameError for an annotation that is
only imported for type checkers (PEP 649)."""
_OPTIONS: dict[str, Any] = {"annotation_format": _FORWARDREF} if sys.version_info >= (3, 14) else {}


def get_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a callable. Names in its annotations need not exist.

    Raises TypeError for an object that cannot be called, and ValueError for a builtin without a signature.
    """
    return inspect.signature(function, **_OPTIONS)
