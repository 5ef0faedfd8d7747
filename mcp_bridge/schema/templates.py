"""Which URIs and URI templates (RFC 6570) can be served, told without the SDK, which is the one to match them.

Its parser takes fewer templates than RFC 6570 has, so that what a URI fits is never a guess; the rules here are those.
Commands that serve nothing have them to tell in advance what `serve` would refuse.
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
"""Operators that put something before each item of a list."""
_BARE = frozenset(("", "+"))
"""Operators that put nothing before the first variable."""
_WIDE = frozenset("+#")
"""Operators whose variables reach over slashes."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a template. With `explode` (`{/path*}`) its value is a list of text.

    `expression` is the text in braces that it stands in. `anchored` is whether some text begins it: what stands before
    it in the template, its operator or a comma.
    """

    name: str
    operator: str
    explode: bool
    expression: str
    anchored: bool

    @property
    def is_wide(self) -> bool:
        """Whether it reaches over slashes."""
        return self.explode or self.operator in _WIDE


def uri_complaints(uri: Any) -> list[str]:
    """Why this is no URI of one resource, a line each; empty when it is one."""
    wrong = _no_uri(uri)
    if not wrong and (brace := _BRACE.search(uri)):
        wrong = [f"it is no URI: there is a brace after '{uri[: brace.start()]}'. Variables need a template"]
    return wrong


def template_complaints(template: Any) -> list[str]:
    """Why URIs cannot be matched with this template, a line each; empty when they can.

    What concerns the whole template is told when each expression is right.
    """
    wrong = _no_uri(template) or _too_long(template)
    wrong = wrong or [line for found in _EXPRESSION.finditer(template) for line in _wrong_expression(found)]
    if wrong:
        return wrong
    variables = template_variables(template)
    rules = (_too_many, _repeated, _two_queries, _side_by_side, _two_wide)
    return [line for rule in rules for line in rule(variables)]


def template_variables(template: str) -> tuple[Variable, ...]:
    """The variables of a template that has no complaints, in its order; none for a URI."""
    return tuple(_variables(template))


def _variables(template: str) -> Iterator[Variable]:
    end = 0
    for found in _EXPRESSION.finditer(template):
        operator, led = found["operator"], found.start() > end or found["operator"] not in _BARE
        for index, item in enumerate(found["body"].split(",")):
            explode = item.endswith("*")
            # a list begins each of its items itself: that text is the list's own, and no end of what is before it
            anchored = found.start() > end and index == 0 if explode else led or index > 0
            yield Variable(item.removesuffix("*"), operator, explode, found[0], anchored)
        end = found.end()


def _no_uri(uri: Any) -> list[str]:
    if not isinstance(uri, str):
        return [f"a URI is text, found {type(uri).__name__}"]
    if not _SCHEME.match(uri):
        return ["it is no URI. Begin with a scheme, as notes://today or users://{id} do"]
    if blank := _BLANK.search(uri):
        return [f"it is no URI: there is a blank after '{uri[: blank.start()]}'. Leave it out, or write %20"]
    return []


def _too_long(template: str) -> list[str]:
    if len(template) <= MAX_LENGTH:
        return []
    return [f"it has {len(template)} characters, a template has {MAX_LENGTH} at most. Write a shorter one"]


def _wrong_expression(found: re.Match[str]) -> Iterator[str]:
    if not found["end"]:
        yield f"'{found[0]}' is not closed. Write a variable as {{name}}"
    elif not found["body"]:
        yield f"'{found[0]}' names no variable. Write one in it, as {{{found['operator']}name}}"
    else:
        wrong = (_wrong_item(item, found["operator"]) for item in found["body"].split(","))
        yield from (f"'{found[0]}': {line}" for line in wrong if line)


def _wrong_item(item: str, operator: str) -> str:
    name = item.removesuffix("*")
    if ":" in item:
        return f"a variable cannot be cut to a length. Write {item.partition(':')[0]!r} without the colon"
    if not _NAME.fullmatch(name):
        return f"{name!r} is no name of a variable. Use letters, digits and _"
    if name != item and operator not in _LISTS:
        return f"there is no list here. Write {{/{name}*}} for the steps of a path, or leave the * out"
    return ""


def _too_many(variables: Sequence[Variable]) -> Iterator[str]:
    if len(variables) > MAX_VARIABLES:
        yield f"it has {len(variables)} variables, a template has {MAX_VARIABLES} at most. Leave some out"


def _repeated(variables: Sequence[Variable]) -> Iterator[str]:
    seen: set[str] = set()
    for variable in variables:
        if variable.name in seen:
            yield f"'{variable.expression}': '{variable.name}' stands in it twice. Give each a name of its own"
        seen.add(variable.name)


def _two_queries(variables: Sequence[Variable]) -> Iterator[str]:
    """Names are told apart by `_repeated`, so a query that is there twice has at least one name in two expressions."""
    begun = list(dict.fromkeys(item.expression for item in variables if item.operator == "?"))
    for expression in begun[1:]:
        yield f"'{expression}': '{begun[0]}' has begun the query. Go on with {{&{expression[2:]}"


def _side_by_side(variables: Sequence[Variable]) -> Iterator[str]:
    for one, other in pairwise(variables):
        if not other.anchored:
            where = one.expression if one.expression == other.expression else one.expression + other.expression
            yield (
                f"'{where}': where '{one.name}' ends and '{other.name}' begins cannot be told. "
                f"Put some text between them, or make them one variable"
            )


def _two_wide(variables: Sequence[Variable]) -> Iterator[str]:
    wide = [item for item in variables if item.is_wide]
    for item in wide[1:]:
        yield (
            f"'{item.expression}': '{wide[0].name}' reaches over slashes already, and one variable of a template can. "
            f"Write {{{item.name}}}"
        )
