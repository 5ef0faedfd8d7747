"""Makes classes that seem to be of a framework, for frameworks that are too large to install for tests.

The bridge recognises objects of a framework by the module of their class.
"""

from __future__ import annotations

from typing import Any


def make_class(module: str, **names: Any) -> type:
    """Return a class that seems to be of this module, with these attributes."""
    return type(names.pop("name"), names.pop("bases", ()), {"__module__": module, **names})
