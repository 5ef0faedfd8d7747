"""A loader of PyYAML for YAML 1.2 (core schema). PyYAML itself loads YAML 1.1.

`no` and `on` are text, dates stay text, and all keys are text, as in JSON.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"


class JsonTypesLoader(_BASE):  # type: ignore[misc]
    """Loads only values of the types of JSON."""

    # This empty table replaces that of the base class, which has the patterns of YAML 1.1. Those of YAML 1.2 are added
    # below.
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - as PyYAML declares it

    def construct_text_mapping(self, node: Any) -> Any:
        """Yield a mapping whose keys are text, such as the `200` of responses.

        PyYAML requires a generator that yields the mapping before it fills it, so an alias can refer to it.
        """
        mapping: dict[str, Any] = {}
        yield mapping
        self.flatten_mapping(node)
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None:
                raise yaml.constructor.ConstructorError(None, None, "a key is not text", key_node.start_mark)
            mapping[key] = self.construct_object(value_node, deep=False)

    def construct_whole_number(self, node: Any) -> int:
        """Return an integer. In YAML 1.2, a leading zero does not make it octal, as in YAML 1.1."""
        text = str(self.construct_scalar(node))
        return int(text, 0) if text[1:2] in ("o", "x") else int(text)


for _name, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+0123456789.")),  # noqa: E501
    ("merge", r"<<", ["<"]),
):  # fmt: skip
    JsonTypesLoader.add_implicit_resolver(_TAG + _name, re.compile(f"(?:{_pattern})\\Z"), _first)
JsonTypesLoader.add_constructor(_TAG + "map", JsonTypesLoader.construct_text_mapping)
JsonTypesLoader.add_constructor(_TAG + "int", JsonTypesLoader.construct_whole_number)
