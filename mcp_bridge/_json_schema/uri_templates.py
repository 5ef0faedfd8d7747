"""Checks URIs and URI templates (RFC 6570), and matches URIs with templates.

RFC 6570 defines how a template becomes a URI, and not the inverse. This module accepts fewer templates than the RFC, so
that a URI matches in only one way. The rules and their results are those of the official SDK.

A template has at most one wide variable, such as {+path}, whose value may contain slashes. The part before it is
matched from the start of the URI, and the part after it backwards from the end, each with one atomic regular
expression. So the wide variable takes the rest, and the time of a match is linear:

    notes://{year}/{+path}.{format} matches notes://2026/work/plan.md:
    notes://2026/ from the start, .md from the end, work/plan between them

A query at the end of a template ({?page,size}) is matched by names instead, in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import quote, unquote, unquote_plus

MAX_LENGTH = 8192
"""The maximum number of characters of a template."""
MAX_VARIABLES = 256
"""The maximum number of variables of a template."""
MAX_URI_LENGTH = 65_536
"""The maximum number of characters of a URI to match."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:.", re.DOTALL)
"""A scheme with its colon (RFC 3986, section 3.1), and a character after them."""
_BLANK = re.compile(r"\s")
_BRACE = re.compile(r"[{}]")
_EXPRESSION = re.compile(r"\{(?P<operator>[+#./;?&]?)(?P<body>[^}]*)(?P<end>\}?)")
_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
"""The name of a variable (RFC 6570, section 2.3), without percent-encoding."""
_LIST_OPERATORS = frozenset("/.;")
"""Operators that write a separator before each item of a list."""
_BARE_OPERATORS = frozenset(("", "+"))
"""Operators that write nothing before the first variable."""
_WIDE_OPERATORS = frozenset("+#")
"""Operators whose variables may contain slashes."""
_QUERY = re.compile(r"(\{[?&][^}]*\})+\Z")
"""The expressions of a query at the end of a template."""
_SEPARATORS = {"": ",", "+": ",", "#": ",", "?": "&"}
"""The separators between the variables of an expression by operator. Other operators are also their own separators."""
_STOPS = {"": "/?#&,", "+": "?#", "#": "", ".": "./?#", "/": "/?#", ";": ";/?#", "?": "&#", "&": "&#"}
"""The characters that a value cannot contain, by operator: RFC 6570 encodes them, or they separate values."""


@dataclass(frozen=True, slots=True)
class TemplateVariable:
    """A variable of a template.

    Attributes:
        explode: Whether its value is a list of text (`{/path*}`).
        expression: The text in braces that contains it.
        follows_text: Whether text precedes its value: that of the template, an operator or a comma.
    """

    name: str
    operator: str
    explode: bool
    expression: str
    follows_text: bool

    @property
    def is_wide(self) -> bool:
        """Whether its value may contain slashes."""
        return self.explode or self.operator in _WIDE_OPERATORS


def check_uri(uri: Any) -> list[str]:
    """Return a line for each reason why this is not the URI of a single resource."""
    lines = check_uri_start(uri)
    if lines:
        return lines
    brace = _BRACE.search(uri)
    if brace is None:
        return []
    return [f"it is not a URI: there is a brace after '{uri[: brace.start()]}'. Variables need a template"]


def check_template(template: Any) -> list[str]:
    """Return a line for each reason why URIs cannot be matched with this template.

    The template as a whole is checked only if each expression is correct.
    """
    lines = check_uri_start(template)
    if lines:
        return lines
    if len(template) > MAX_LENGTH:
        return [f"it has {len(template)} characters, a template has {MAX_LENGTH} at most. Write a shorter one"]
    for match in _EXPRESSION.finditer(template):
        lines += _check_expression(match)
    return lines or list(_check_variables(parse_template_variables(template)))


def parse_template_variables(template: str) -> tuple[TemplateVariable, ...]:
    """Return the variables of a valid template in their order. A URI has none."""
    variables: list[TemplateVariable] = []
    end = 0
    for match in _EXPRESSION.finditer(template):
        variables += _parse_expression(match, follows_text=match.start() > end)
        end = match.end()
    return tuple(variables)


def expand_template(template: str, values: Mapping[str, Any]) -> str:
    """Return the URI of a valid template with these values. Variables without a value are omitted (RFC 6570, 3.2)."""

    def expand(match: re.Match[str]) -> str:
        operator = match["operator"]
        pieces: list[str] = []
        for variable in _parse_expression(match, follows_text=False):
            value = values.get(variable.name)
            if value is None:
                continue
            values_to_encode = value if isinstance(value, list) else [value]
            items = [_encode_value(str(item), operator) for item in values_to_encode]
            if items and not variable.explode:
                items = [",".join(items)]
            if operator in ("?", "&"):
                items = [f"{variable.name}={item}" for item in items]
            elif operator == ";":
                # The name of an empty value has no equals sign (section 3.2.7).
                items = [f"{variable.name}={item}".removesuffix("=") for item in items]
            pieces += items
        if not pieces:
            return ""
        return operator.removeprefix("+") + _SEPARATORS.get(operator, operator).join(pieces)

    return _EXPRESSION.sub(expand, template)


def _encode_value(value: str, operator: str) -> str:
    if operator not in _WIDE_OPERATORS:
        return quote(value, safe="")
    # Reserved characters and percent-encoded ones stay unchanged (section 3.2.1).
    return re.sub("%(?![0-9A-Fa-f]{2})", "%25", quote(value, safe=":/?#[]@!$&'()*+,;=%"))


class UriTemplate:
    """Matches URIs with a template in linear time. Raises ValueError for a template that `check_template` rejects.

    Without a wide variable, each variable takes as much as possible, the first one first. With a wide variable, all
    others take as little as possible.
    """

    def __init__(self, template: str) -> None:
        if problems := check_template(template):
            raise ValueError("; ".join(problems))
        path, self._query = _split_query(template)
        texts, variables = _split_template(path)
        # Without a wide variable, its index is -1, and the whole template is matched from the end.
        wide = next((index for index, variable in enumerate(variables) if variable.is_wide), -1)
        self._wide = variables[wide] if wide >= 0 else None
        self._head = texts[0]
        before, after = variables[: max(wide, 0)], variables[wide + 1 :]
        self._before_names = [variable.name for variable in before]
        before_steps = [_write_step(variable, text) for variable, text in zip(before, texts[1:], strict=False)]
        self._before = re.compile(re.escape(texts[0]) + "".join(before_steps))
        # This pattern is matched with the reversed URI, so its texts are reversed too.
        self._after_names = [variable.name for variable in reversed(after)]
        end = "" if self._wide is not None else r"\Z"
        after_steps = [re.escape(texts[-1][::-1])]
        for index in range(len(variables) - 1, wide, -1):
            after_steps.append(_write_step(variables[index], texts[index], "" if index else end, backwards=True))
        self._after = re.compile("".join(after_steps) + end)

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """Return the decoded values of the variables, or None if the URI does not match or is too long.

        Variables of a query at the end are optional and may have any order. Other parameters are ignored.
        """
        if len(uri) > MAX_URI_LENGTH:
            return None
        query = ""
        if self._query:
            uri, _, query = uri.partition("#")[0].partition("?")
        if not uri.startswith(self._head):
            return None
        values = self._match_path(uri)
        if values is not None and query:
            parameters = _parse_query(query)
            values.update((name, parameters[name]) for name in self._query if name in parameters)
        return values

    def spell(self, uri: str, values: Mapping[str, str | list[str]]) -> str:
        """Return the one spelling of a matching URI that policies compare.

        Its query has only the parameters of the template, in their order. There is no fragment.
        """
        if not self._query:
            return uri
        path = re.split("[?#]", uri, maxsplit=1)[0]
        pairs = [f"{name}={quote(str(values[name]), safe='')}" for name in self._query if name in values]
        return f"{path}?{'&'.join(pairs)}" if pairs else path

    def _match_path(self, uri: str) -> dict[str, str | list[str]] | None:
        """Return the values of the variables outside of the query, or None."""
        after = self._after.match(uri[::-1])
        if after is None:
            return None
        values: dict[str, str | list[str]] = {}
        for name, value in zip(self._after_names, after.groups(), strict=True):
            values[name] = unquote((value or "")[::-1])
        if self._wide is None:
            return values
        end = len(uri) - after.end()
        before = self._before.match(uri, 0, end)
        if before is None:
            return None
        for name, value in zip(self._before_names, before.groups(), strict=True):
            values[name] = unquote(value or "")
        wide_value = _read_wide_value(self._wide, uri[before.end() : end])
        if wide_value is None:
            return None
        values[self._wide.name] = wide_value
        return values


class OpaqueTemplate:
    """Matches URIs by the texts around the variables of any template. An upstream reads the variables."""

    def __init__(self, template: str) -> None:
        self._head, *self._texts = re.split(r"\{[^}]*\}?", template)
        path, names = _split_query(template)
        # An exploded variable such as {?filters*} matches parameters of any name (RFC 6570, section 3.2.8).
        is_open = any(variable.explode for variable in parse_template_variables(template[len(path) :]))
        self._query = [] if is_open else names

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """Return the URI, or None if it does not match or is too long."""
        if len(uri) > MAX_URI_LENGTH or not uri.startswith(self._head):
            return None
        position = len(self._head)
        for text in self._texts:
            at = uri.find(text, position)
            if at < 0:
                return None
            position = at + len(text)
        last = self._texts[-1] if self._texts else ""
        return {"uri": uri} if uri.endswith(last) else None

    def spell(self, uri: str, values: Mapping[str, str | list[str]]) -> str:
        """Return the URI in the client's spelling, but with only the parameters of the template, in their order.

        Unknown parameters, repeated ones and the fragment are left out, because servers ignore them.
        """
        if not self._query:
            return uri
        path, _, query = uri.partition("#")[0].partition("?")
        pairs: dict[str, str] = {}
        for pair in query.split("&"):
            name, _, value = pair.partition("=")
            name = unquote_plus(name)
            pairs.setdefault(name, f"{name}={value}")
        texts = [pairs[name] for name in self._query if name in pairs]
        return f"{path}?{'&'.join(texts)}" if texts else path


def _write_step(variable: TemplateVariable, text: str, end: str = "", *, backwards: bool = False) -> str:
    """Return a pattern for the value of a variable and the text after it, or `backwards` the text before it.

    The value ends at the first occurrence of the text before `end`. The group is atomic, so a step never backtracks
    into the previous one, and the time of a match is linear.
    """
    text = re.escape(text[::-1] if backwards else text) + end
    value = f"([^{_STOPS[variable.operator]}]*?)"
    if variable.operator != ";":
        return f"(?>{value}{text})"
    # {;x} is ;x for an empty value, and ;x=... otherwise (RFC 6570, section 3.2.7).
    return f"(?>{text}|{value}={text})" if backwards else f"(?>{text}|={value}{text})"


def _read_wide_value(variable: TemplateVariable, text: str) -> str | list[str] | None:
    """Return the decoded value of the wide variable, or None if the text cannot be its value."""
    stops = set(_STOPS[variable.operator])
    if not variable.explode:
        return unquote(text) if stops.isdisjoint(text) else None
    first, *items = text.split(variable.operator)
    if first or not all(map(stops.isdisjoint, items)):
        return None
    if variable.operator == ";":
        # Each item is ;name=value, or ;name.
        pairs = [item.partition("=") for item in items]
        if any(name != variable.name for name, _, _ in pairs):
            return None
        items = [value for _, _, value in pairs]
    return [unquote(item) for item in items]


def _parse_query(query: str) -> dict[str, str]:
    """Return the first value of each name. Names are not decoded, so that another spelling cannot hide a value."""
    values: dict[str, str] = {}
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if name not in values:
            values[name] = unquote(value)
    return values


def _split_query(template: str) -> tuple[str, list[str]]:
    """Return the part of a template before its query, and the names in the query.

    If a query begins with plain text, it belongs to the first part.
    """
    match = _QUERY.search(template)
    if match is None or not match[0].startswith("{?"):
        return template, []
    path = template[: match.start()]
    if "?" in path or "#" in path:
        return template, []
    return path, [variable.name for variable in parse_template_variables(match[0])]


def _split_template(template: str) -> tuple[list[str], list[TemplateVariable]]:
    """Return the texts around the variables, and the variables. There is one text more than variables.

    The texts include the characters of the operators. `notes://{year}{?page}`, for example, has the texts `notes://`,
    `?page=` and an empty one.
    """
    texts: list[str] = []
    variables: list[TemplateVariable] = []
    text, end = "", 0
    for match in _EXPRESSION.finditer(template):
        text += template[end : match.start()]
        for index, variable in enumerate(_parse_expression(match, follows_text=bool(text))):
            texts.append(text + _get_lead(variable, is_first=index == 0))
            variables.append(variable)
            text = ""
        end = match.end()
    return [*texts, text + template[end:]], variables


def _get_lead(variable: TemplateVariable, *, is_first: bool) -> str:
    """Return the text that an operator writes before a value."""
    operator = variable.operator
    if variable.explode:
        return ""
    lead = operator.removeprefix("+") if is_first else _SEPARATORS.get(operator, operator)
    if operator == ";":
        return lead + variable.name
    return f"{lead}{variable.name}=" if operator in ("?", "&") else lead


def _parse_expression(match: re.Match[str], *, follows_text: bool) -> Iterator[TemplateVariable]:
    """Yield the variables of an expression. `follows_text` is whether text of the template precedes it."""
    operator = match["operator"]
    for index, item in enumerate(match["body"].split(",")):
        explode = item.endswith("*")
        is_after_text = follows_text or operator not in _BARE_OPERATORS or index > 0
        if explode:
            # The separator before each item belongs to the list, so it does not end the variable before it.
            is_after_text = follows_text and index == 0
        yield TemplateVariable(item.removesuffix("*"), operator, explode, match[0], is_after_text)


def check_uri_start(uri: Any) -> list[str]:
    """Return why this is neither a URI nor a template, apart from its variables."""
    if not isinstance(uri, str):
        return [f"a URI is text, found {type(uri).__name__}"]
    if not _SCHEME.match(uri):
        return ["it is not a URI. Begin with a scheme, as in notes://today or users://{id}"]
    blank = _BLANK.search(uri)
    if blank is None:
        return []
    return [f"it is not a URI: there is a blank after '{uri[: blank.start()]}'. Leave it out, or write %20"]


def _check_expression(match: re.Match[str]) -> Iterator[str]:
    """Yield the problems of a single expression."""
    if not match["end"]:
        yield f"'{match[0]}' is not closed. Write a variable as {{name}}"
    elif not match["body"]:
        yield f"'{match[0]}' names no variable. Write one in it, as {{{match['operator']}name}}"
    else:
        for item in match["body"].split(","):
            problem = _check_variable(item, match["operator"])
            if problem:
                yield f"'{match[0]}': {problem}"


def _check_variable(item: str, operator: str) -> str:
    """Return the problem of a variable in an expression, or an empty text."""
    name = item.removesuffix("*")
    if ":" in item:
        return f"the length of a variable cannot be limited. Write {item.partition(':')[0]!r} without the colon"
    if not _NAME.fullmatch(name):
        return f"{name!r} is not a variable name. Use letters, digits and _"
    if name != item and operator not in _LIST_OPERATORS:
        return f"a list is not possible here. Write {{/{name}*}} for the steps of a path, or leave the * out"
    return ""


def _check_variables(variables: Sequence[TemplateVariable]) -> Iterator[str]:
    """Yield the problems of all variables together."""
    if len(variables) > MAX_VARIABLES:
        yield f"it has {len(variables)} variables, a template has {MAX_VARIABLES} at most. Leave some out"
    names: set[str] = set()
    for variable in variables:
        if variable.name in names:
            yield f"'{variable.expression}': '{variable.name}' is in the template twice. Use a name only once"
        names.add(variable.name)
    queries = list(dict.fromkeys(item.expression for item in variables if item.operator == "?"))
    for expression in queries[1:]:
        yield f"'{expression}': '{queries[0]}' has begun the query. Continue it with {{&{expression[2:]}"
    for first, second in pairwise(variables):
        if not second.follows_text:
            place = first.expression
            if second.expression != first.expression:
                place += second.expression
            yield (
                f"'{place}': nothing separates '{first.name}' from '{second.name}'. "
                f"Put text between them, or make them one variable"
            )
    wide = [item for item in variables if item.is_wide]
    for item in wide[1:]:
        yield (
            f"'{item.expression}': '{wide[0].name}' may contain slashes, and only one variable of a template can. "
            f"Write {{{item.name}}}"
        )
