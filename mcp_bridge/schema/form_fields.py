"""One property of a form: any JSON Schema in, what forms have out (`PrimitiveSchemaDefinition` of client/elicitation).

References are followed, null becomes "may be left out", and what forms do not have is refused or kept to ourselves:
a constraint that clients are not told about is still checked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from mcp_bridge.schema.formats import FORMATS
from mcp_bridge.schema.secrets import names_secret
from mcp_bridge.schema.validator import Validator

_SENT = {
    "string": ("minLength", "maxLength", "format"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems"),
}
_CHECKED = {
    "string": ("pattern",),
    "number": ("exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "integer": ("multipleOf",),
    "boolean": ("const", "enum"),
    "array": ("uniqueItems",),
}
_WORDS = ("title", "description")
_LIMITS = (("minLength", "maxLength"), ("minimum", "maximum"), ("minItems", "maxItems"))
_BRANCHES = ("anyOf", "oneOf", "allOf", "not", "if")
_NULL = {"type": "null"}
_HOPS = 32
"""How many references and nulls are followed; a reference to itself ends here."""
_FLAT = "A form is flat: text, numbers, booleans and choices"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One property: `sent` to clients, `checked` when the answer comes, `nullable` when it may be left out."""

    sent: dict[str, Any]
    checked: dict[str, Any]
    nullable: bool


def form_field(name: str, schema: Any, definitions: Mapping[str, Any]) -> FormField:
    """Read one property of a schema that JSON Schema has no complaints about.

    Raises ValueError naming it when no form can have it, or when it would ask for a secret.
    """
    part, nullable = _resolved(name, schema, definitions)
    kind = str(part.get("type"))
    choices = _choices(name, part) if kind in ("string", "None") else None
    if choices is None and (kind not in _SENT or not part.keys().isdisjoint(_BRANCHES)):
        _refuse(name, _shown(part), _FLAT)
    if _is_secret(name, part, choices):
        _refuse(name, "it looks like a secret, which forms must not ask for", "Ask with url= instead")
    if kind == "array":
        sent, checked = _several(name, part, definitions)
    elif choices is not None:
        sent, checked = choices, {"type": "string", "enum": _values(choices)}
    else:
        sent, checked = _value(name, part)
    return FormField(sent=_finished(name, part, sent, checked), checked=checked, nullable=nullable)


def _refuse(name: str, problem: str, advice: str) -> NoReturn:
    raise ValueError(f"'{name}' cannot be in a form: {problem}. {advice}.")


def _shown(part: Mapping[str, Any]) -> str:
    if "type" in part:
        return f"its type is {part['type']!r}"
    told = next((keyword for keyword in _BRANCHES if keyword in part), None)
    return f"it has {told}" if told is not None else "its type is not said"


# -- references and null -------------------------------------------------------------------------------------


def _resolved(name: str, schema: Any, definitions: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The property without references and without null, and whether null was allowed."""
    if not isinstance(schema, Mapping):
        _refuse(name, "it may be anything", _FLAT)
    part, nullable = dict(schema), False
    for _ in range(_HOPS):
        if "$ref" in part:
            target = _target(part.pop("$ref"), definitions)
            if target is None:
                break
            part = {**target, **part}
        elif (rest := _without_null(part)) is not None:
            part, nullable = rest, True
        else:
            return part, nullable
    _refuse(name, "it has a reference that leads nowhere", "Write the schema out")


def _target(reference: Any, definitions: Mapping[str, Any]) -> Mapping[str, Any] | None:
    target = definitions.get(reference.rsplit("/", 1)[-1]) if isinstance(reference, str) else None
    return target if isinstance(target, Mapping) else None


def _without_null(part: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same without null among what is allowed; None where null is not allowed."""
    for keyword in ("anyOf", "oneOf", "type", "enum"):
        allowed, null = part.get(keyword), {"type": "null", "enum": None}.get(keyword, _NULL)
        if not isinstance(allowed, list) or null not in allowed:
            continue
        rest = {key: value for key, value in part.items() if key != keyword}
        left = [item for item in allowed if item != null]
        if len(left) == 1 and keyword != "enum":
            return {**rest, "type": left[0]} if keyword == "type" else {**left[0], **rest}
        return {**rest, keyword: left}
    return None


# -- kinds of fields -----------------------------------------------------------------------------------------


def _value(name: str, part: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Text, a number or a boolean."""
    kind = part["type"]
    if kind in ("number", "integer") and ("enum" in part or "const" in part):
        _refuse(name, "its choices are numbers", "Choices are text: name them, or ask for a number with bounds")
    part = _inclusive(part) if kind == "integer" else part
    sent = {"type": kind, **_copied(part, _SENT[kind])}
    if sent.get("format") not in FORMATS:
        sent.pop("format", None)
    return sent, {**sent, **_copied(part, _CHECKED[kind])}


def _inclusive(part: Mapping[str, Any]) -> dict[str, Any]:
    """The bounds of an integer in the words that forms have: more than 0 is at least 1."""
    made = dict(part)
    if "exclusiveMinimum" in part:
        made["minimum"] = max(math.floor(part["exclusiveMinimum"]) + 1, part.get("minimum", -math.inf))
    if "exclusiveMaximum" in part:
        made["maximum"] = min(math.ceil(part["exclusiveMaximum"]) - 1, part.get("maximum", math.inf))
    return made


def _copied(part: Mapping[str, Any], keywords: Sequence[str]) -> dict[str, Any]:
    return {key: part[key] for key in keywords if key in part}


def _several(
    name: str, part: Mapping[str, Any], definitions: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Several choices. The specification has `anyOf` here where a single choice has `oneOf`."""
    items, _ = _resolved(name, part.get("items", {}), definitions)
    choices = _choices(name, items)
    if choices is None:
        _refuse(name, "it is a list without choices", 'Give them: list[Literal["a", "b"]], or items with an enum')
    values, titles = _values(choices), _titles(choices)
    kept = {"type": "array", **_copied(part, _SENT["array"])}
    pairs = [{"const": value, "title": title} for value, title in zip(values, titles or (), strict=False)]
    shown = {"anyOf": pairs} if pairs else {"type": "string", "enum": values}
    if kept.get("minItems", 0) > len(values):
        _refuse(name, f"minItems is more than its {len(values)} choices", "Ask for fewer")
    plain = {"type": "string", "enum": values}
    return {**kept, "items": shown}, {**kept, **_copied(part, _CHECKED["array"]), "items": plain}


def _choices(name: str, part: Mapping[str, Any]) -> dict[str, Any] | None:
    """A single choice as forms have it: `enum`, with `enumNames` if the author gave them, or `oneOf` with titles."""
    pairs = part.get("oneOf", part.get("anyOf"))
    if isinstance(pairs, list) and all(isinstance(item, Mapping) and "const" in item for item in pairs):
        made: dict[str, Any] = {
            "oneOf": [{"const": item["const"], "title": item.get("title", item["const"])} for item in pairs]
        }
    elif "const" in part or isinstance(part.get("enum"), list):
        made = {"enum": part.get("enum", [part.get("const")])}
        if isinstance(part.get("enumNames"), list):
            made["enumNames"] = part["enumNames"]
    else:
        return None
    values, titles = _values(made), _titles(made)
    if not values or not all(isinstance(item, str) for item in (*values, *(titles or ()))):
        _refuse(name, "its choices are not all text", "Choices and their titles are text, and there is at least one")
    if len(set(values)) < len(values) or (titles is not None and len(titles) != len(values)):
        _refuse(name, "its choices are not told apart", "Give each choice once, and as many titles as choices")
    return {"type": "string", **made}


def _values(choices: Mapping[str, Any]) -> list[Any]:
    return choices["enum"] if "enum" in choices else [item["const"] for item in choices["oneOf"]]


def _titles(choices: Mapping[str, Any]) -> list[Any] | None:
    return [item["title"] for item in choices["oneOf"]] if "oneOf" in choices else choices.get("enumNames")


def _finished(name: str, part: Mapping[str, Any], sent: dict[str, Any], checked: Mapping[str, Any]) -> dict[str, Any]:
    """With title, description and default, once the rest of it holds."""
    for low, high in _LIMITS:
        if low in sent and high in sent and sent[low] > sent[high]:
            _refuse(name, f"{low} is more than {high}", "Nothing would fit")
    words = {key: part[key] for key in _WORDS if isinstance(part.get(key), str)}
    if part.get("default") is None:
        return {**sent, **words}
    for line in Validator(checked).problems(part["default"]):
        _refuse(name, f"its default does not fit ({line})", "Give another, or none")
    return {**sent, **words, "default": part["default"]}


def _is_secret(name: str, part: Mapping[str, Any], choices: Any) -> bool:
    """Whether it says so itself, or what would be typed in is named like a secret."""
    if part.get("format") == "password" or part.get("writeOnly") is True:
        return True
    if choices is not None or part.get("type") not in ("string", "number", "integer"):
        return False
    return any(names_secret(text) for text in (name, part.get("title")) if isinstance(text, str))
