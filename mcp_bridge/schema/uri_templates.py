"""Checks which URIs and URI templates (RFC 6570) can be served, without importing the SDK that matches them.

The SDK accepts fewer templates than RFC 6570, so that a URI matches in only one way; these are its rules. Commands such
as `validate` can thus report in advance what `serve` would reject.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

MAX_LENGTH = 8192
MAX_VARIABLES = 256

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:.", re.DOTALL)  # RFC 3986, section 3.1, and something after it
_BLANK = re.compile(r"\s")
_BRACE = re.compile(r"[{}]")
_EXPRESSION = re.compile(r"\{(?P<operator>[+#./;?&]?)(?P<body>[^}]*)(?P<end>\}?)")
_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")  # RFC 6570, section 2.3, without percent-encoding
_LISTS = frozenset("/.;")
"""Operators that write a separator before each item of a list."""
_BARE = frozenset(("", "+"))
"""Operators that write nothing before the first variable."""
_WIDE = frozenset("+#")
"""Operators whose variables may contain slashes."""


@dataclass(frozen=True, slots=True)
class TemplateVariable:
    """A variable of a template. With `explode` (`{/path*}`) its value is a list of text.

    `expression` is the text in braces that contains it. `anchored` means that text precedes its value: that of the
    template, an operator or a comma.
    """

    name: str
    operator: str
    explode: bool
    expression: str
    anchored: bool

    @property
    def is_wide(self) -> bool:
        """Whether its value may contain slashes."""
        return self.explode or self.operator in _WIDE


def check_uri(uri: Any) -> list[str]:
    """Why this is not the URI of a single resource, one line for each reason; empty if it is."""
    lines = _check_uri(uri)
    if not lines and (brace := _BRACE.search(uri)):
        lines = [f"it is not a URI: there is a brace after '{uri[: brace.start()]}'. Variables need a template"]
    return lines


def check_template(template: Any) -> list[str]:
    """Why URIs cannot be matched with this template, one line for each reason; empty if they can.

    The template as a whole is only checked if each expression is correct.
    """
    lines = _check_uri(template)
    if not lines and len(template) > MAX_LENGTH:
        lines = [f"it has {len(template)} characters, a template has {MAX_LENGTH} at most. Write a shorter one"]
    lines = lines or [line for match in _EXPRESSION.finditer(template) for line in _check_expression(match)]
    if lines:
        return lines
    variables = parse_template_variables(template)
    return list(_check_variables(variables))


def parse_template_variables(template: str) -> tuple[TemplateVariable, ...]:
    """The variables of a valid template, in its order; none for a URI."""
    variables: list[TemplateVariable] = []
    end = 0
    for match in _EXPRESSION.finditer(template):
        operator, follows_text = match["operator"], match.start() > end
        for index, item in enumerate(match["body"].split(",")):
            explode = item.endswith("*")
            # the separator before each item of a list belongs to the list, so it does not end the variable before it
            anchored = (follows_text and index == 0) if explode else follows_text or operator not in _BARE or index > 0
            variables.append(TemplateVariable(item.removesuffix("*"), operator, explode, match[0], anchored))
        end = match.end()
    return tuple(variables)


def _check_uri(uri: Any) -> list[str]:
    if not isinstance(uri, str):
        return [f"a URI is text, found {type(uri).__name__}"]
    if not _SCHEME.match(uri):
        return ["it is not a URI. Begin with a scheme, as in notes://today or users://{id}"]
    if blank := _BLANK.search(uri):
        return [f"it is not a URI: there is a blank after '{uri[: blank.start()]}'. Leave it out, or write %20"]
    return []


def _check_expression(match: re.Match[str]) -> Iterator[str]:
    if not match["end"]:
        yield f"'{match[0]}' is not closed. Write a variable as {{name}}"
    elif not match["body"]:
        yield f"'{match[0]}' names no variable. Write one in it, as {{{match['operator']}name}}"
    else:
        lines = (_check_variable(item, match["operator"]) for item in match["body"].split(","))
        yield from (f"'{match[0]}': {line}" for line in lines if line)


def _check_variable(item: str, operator: str) -> str:
    name = item.removesuffix("*")
    if ":" in item:
        return f"the length of a variable cannot be limited. Write {item.partition(':')[0]!r} without the colon"
    if not _NAME.fullmatch(name):
        return f"{name!r} is not a variable name. Use letters, digits and _"
    if name != item and operator not in _LISTS:
        return f"a list is not possible here. Write {{/{name}*}} for the steps of a path, or leave the * out"
    return ""


def _check_variables(variables: Sequence[TemplateVariable]) -> Iterator[str]:
    if len(variables) > MAX_VARIABLES:
        yield f"it has {len(variables)} variables, a template has {MAX_VARIABLES} at most. Leave some out"
    seen: set[str] = set()
    for variable in variables:
        if variable.name in seen:
            yield f"'{variable.expression}': '{variable.name}' is in the template twice. Use a name only once"
        seen.add(variable.name)
    queries = list(dict.fromkeys(item.expression for item in variables if item.operator == "?"))
    for expression in queries[1:]:
        yield f"'{expression}': '{queries[0]}' has begun the query. Continue it with {{&{expression[2:]}"
    for one, other in pairwise(variables):
        if not other.anchored:
            where = one.expression if one.expression == other.expression else one.expression + other.expression
            yield (
                f"'{where}': nothing separates '{one.name}' from '{other.name}'. "
                f"Put text between them, or make them one variable"
            )
    wide = [item for item in variables if item.is_wide]
    for item in wide[1:]:
        yield (
            f"'{item.expression}': '{wide[0].name}' may contain slashes, and only one variable of a template can. "
            f"Write {{{item.name}}}"
        )
