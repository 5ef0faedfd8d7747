"""URIs and URI templates: serving and validation report the same problems, with the place and advice."""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from mcp_types import ResourceTemplateReference
from uritemplate import expand

from mcp_bridge import ToolEntry, ToolRegistry
from mcp_bridge._app.bridge import AttachedSource, Bridge
from mcp_bridge._contracts.source import Publish, Source
from mcp_bridge._engine.authoring import prompt, resource
from mcp_bridge._json_schema.uri_templates import (
    MAX_LENGTH,
    MAX_VARIABLES,
    check_template,
    check_uri,
    expand_template,
)
from mcp_bridge.sources import Offer, ResourceEntry, ResourceTemplate
from mcp_bridge.testing import connect
from tests.kits.constants import TIMEOUT

LETTERS = "ab_.{}+#/;?&,*:= -%~"


def can_be_matched(template: str) -> bool:
    try:
        UriTemplate.parse(template)
    except InvalidUriTemplate:
        return False
    return True


# Expansion: the examples of RFC 6570, section 3.2

VALUES: dict[str, Any] = {
    "var": "value", "hello": "Hello World!", "half": "50%", "path": "/foo/bar", "list": ["red", "green", "blue"],
    "empty": "", "none": [], "x": 1024, "y": 768,
}  # fmt: skip


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("a:{hello}{half}", "a:Hello%20World%2150%25"),
        ("a:{x,hello,y}", "a:1024,Hello%20World%21,768"),
        ("a:O{empty}X{none}{unknown}", "a:OX"),
        ("a:{+hello}{+half}{+path}/here", "a:Hello%20World!50%25/foo/bar/here"),
        ("a:{#x,hello,y}", "a:#1024,Hello%20World!,768"),
        ("a:X{.x,y}{.list*}", "a:X.1024.768.red.green.blue"),
        ("a:{/var,empty}{/list*}{/list}", "a:/value//red/green/blue/red,green,blue"),
        ("a:{;x,y,empty}{;list*}", "a:;x=1024;y=768;empty;list=red;list=green;list=blue"),
        ("a:{?x,y,empty,unknown}{&var}", "a:?x=1024&y=768&empty=&var=value"),
    ],
)
def test_a_template_expands_as_in_rfc_6570(template: str, uri: str) -> None:
    assert expand_template(template, VALUES) == uri


@given(st.text(), st.lists(st.text(), min_size=1), st.sampled_from(["a://{x}/{y}", "a:{+x}{?y}", "a:{#x}", "a:{/x*}"]))
def test_an_expansion_is_that_of_the_reference_library(text: str, items: list[str], template: str) -> None:
    values = {"x": items if "*" in template else text, "y": text}
    assert expand_template(template, values) == expand(template, values)


# Templates by hand

GOOD = [
    "a:{b}",
    "a://{b}{/c}{;d}",
    "a://{b}/{+c}",
    "a://x{/b*}",
    "a://{b}/in{/c*}{?d,e}",
    "a://x{&b}{?c}",
    "a://{b.c}/{_1}/{2}",
    "a://{b}}",
    "a://ü/{b}",
]

BAD = [
    ("", "it is not a URI. Begin with a scheme, as in notes://today or users://{id}"),
    ("a:", "it is not a URI. Begin with a scheme"),
    ("{a}://b", "it is not a URI. Begin with a scheme"),
    ("a://b c", "there is a blank after 'a://b'. Leave it out, or write %20"),
    ("a://{b}\n", "there is a blank after 'a://{b}'. Leave it out, or write %20"),
    ("a://x\u2003{b}", "there is a blank after 'a://x'. Leave it out, or write %20"),
    ("a://{b}/{c", "'{c' is not closed. Write a variable as {name}"),
    ("a://{", "'{' is not closed. Write a variable as {name}"),
    ("a://{}", "'{}' names no variable. Write one in it, as {name}"),
    ("a://x{?}", "'{?}' names no variable. Write one in it, as {?name}"),
    ("a://{b:3}", "'{b:3}': the length of a variable cannot be limited. Write 'b' without the colon"),
    ("a://{b-c}", "'{b-c}': 'b-c' is not a variable name. Use letters, digits and _"),
    ("a://{{b}}", "'{{b}': '{b' is not a variable name. Use letters, digits and _"),
    ("a://{b,}", "'{b,}': '' is not a variable name. Use letters, digits and _"),
    ("a://{b..c}", "'{b..c}': 'b..c' is not a variable name. Use letters, digits and _"),
    ("a://{é}", "'{é}': 'é' is not a variable name. Use letters, digits and _"),
    ("a://{b*}", "'{b*}': a list is not possible here. Write {/b*} for the steps of a path, or leave the * out"),
    ("a://{b}/{b}", "'{b}': 'b' is in the template twice. Use a name only once"),
    ("a://x{?b}{?c,d}", "'{?c,d}': '{?b}' has begun the query. Continue it with {&c,d}"),
    ("a://{b}{c}", "'{b}{c}': nothing separates 'b' from 'c'. Put text between them, or make"),
    ("a://x{/b,c*}", "'{/b,c*}': nothing separates 'b' from 'c'. Put text between them, or make"),
    ("a://{+b}/{+c}", "'{+c}': 'b' may contain slashes, and only one variable of a template can. Write {c}"),
    ("a://x{/b*}{#c}", "'{#c}': 'b' may contain slashes, and only one variable of a template can. Write {c}"),
    ("a://" + "b" * MAX_LENGTH, f"it has 8196 characters, a template has {MAX_LENGTH} at most. Write a shorter one"),
    (
        "a://{" + ",".join(f"b{number}" for number in range(MAX_VARIABLES + 1)) + "}",
        f"it has 257 variables, a template has {MAX_VARIABLES} at most. Leave some out",
    ),
]


@pytest.mark.parametrize("template", GOOD)
def test_a_template_for_matching_uris_has_no_problems(template: str) -> None:
    assert check_template(template) == []
    assert can_be_matched(template)


@pytest.mark.parametrize(("template", "line"), BAD, ids=[template[:20] for template, _ in BAD])
def test_a_template_is_rejected_with_the_place_and_advice(template: str, line: str) -> None:
    [problem] = check_template(template)
    assert line in problem
    # The SDK accepts any text as a template.
    if "not a URI" not in problem:
        assert not can_be_matched(template)


def test_each_thing_that_is_wrong_has_a_line() -> None:
    assert len(check_template("a://{b:3,c*}/{}/{d-}")) == 4
    assert len(check_template("a://{b}{b}{+c}{?e}{?f}")) == 4


def test_a_template_at_its_limits_is_fine() -> None:
    variables = ",".join(f"b{number}" for number in range(MAX_VARIABLES))
    for template in ("a://{" + variables + "}", "a://{b}".ljust(MAX_LENGTH, "x")):
        assert check_template(template) == []
        assert can_be_matched(template)


def generate_parts(operators: str = "+#./;?&") -> st.SearchStrategy[str]:
    """Generate literals and expressions, some with a small error."""
    name = st.sampled_from(["a", "b", "c.d", "e_1", "f", "g", "h", "a.", "", "i-j"])
    item = st.tuples(name, st.sampled_from(["", "", "", "*", ":3"])).map("".join)
    inner = st.tuples(st.sampled_from(["", *operators]), st.lists(item, min_size=1, max_size=3).map(",".join))
    return inner.map(lambda both: "{" + "".join(both) + "}") | st.sampled_from(["/", "x", "?", "#", ",", "}", "{"])


templates = st.lists(generate_parts(), max_size=6).map("".join) | st.text(LETTERS) | st.text()


@given(templates)
@example("x{a}{&b}{?c}")
@example("x{?a}/{b}{?c}")
@example("{/a*}{b}")
@example("x{+a}{/b}{;c}")
def test_a_template_has_problems_exactly_if_the_sdk_cannot_match_it(suffix: str) -> None:
    template = "a:x" + "".join(suffix.split())
    assert (check_template(template) == []) is can_be_matched(template)


@given(st.text(LETTERS) | st.text())
def test_a_uri_has_no_problems_exactly_if_it_has_a_scheme_and_no_blanks_or_braces(suffix: str) -> None:
    odd = not suffix or any(letter.isspace() or letter in "{}" for letter in suffix)
    assert (check_uri("a+b-1.c:" + suffix) == []) is not odd


@pytest.mark.parametrize("uri", ["", "/notes", "notes:", "1a://b"])
def test_a_uri_needs_a_scheme(uri: str) -> None:
    assert check_uri(uri) == ["it is not a URI. Begin with a scheme, as in notes://today or users://{id}"]


def test_a_brace_in_a_uri_is_reported_with_its_place() -> None:
    expected = "it is not a URI: there is a brace after 'a://b/'. Variables need a template"
    assert check_uri("a://b/{c}") == [expected]


@pytest.mark.parametrize(
    ("check", "value", "type_name"), [(check_uri, None, "NoneType"), (check_template, b"a://b", "bytes")]
)
def test_a_value_that_is_not_text_is_not_a_uri(check: Callable[[Any], list[str]], value: Any, type_name: str) -> None:
    assert check(value) == [f"a URI is text, found {type_name}"]


# Decorators


@pytest.mark.parametrize(
    ("uri", "line"),
    [
        ("notes", "it is not a URI. Begin with a scheme"),
        ("notes://b c", "it is not a URI: there is a blank after 'notes://b'"),
        ("notes://b}", "it is not a URI: there is a brace after 'notes://b'"),
        ("notes://{b}}", "its braces are not balanced. Write a variable as {name}"),
        ("notes://{b", "'{b' is not closed"),
        ("notes://{b:3}", "'{b:3}': the length of a variable cannot be limited"),
        ("notes://{b}{c}", "'{b}{c}': nothing separates 'b' from 'c'"),
    ],
)
def test_a_decorator_rejects_a_uri_that_cannot_be_served(uri: str, line: str) -> None:
    with pytest.raises(ValueError) as error_info:
        resource(uri)
    assert str(error_info.value).startswith(f"@resource('{uri}'): {line}")


@pytest.mark.parametrize("annotation", [str | None, Literal["a"], dict[str, str], Annotated[str, pydantic.Field()]])
def test_a_list_in_the_template_needs_a_parameter_that_takes_one(annotation: Any) -> None:
    with pytest.raises(TypeError, match=r"read: variable 'path' in '\{/path\*\}' is a list\. .*list\[str\], or omit"):

        @resource("files://x{/path*}")
        def read(path: annotation) -> None: ...


class Steps(pydantic.RootModel[list[str]]):
    """A list by another name."""


@pytest.mark.parametrize("annotation", [Any, list[int] | None, tuple[str, ...], str | list[str], Steps])
def test_a_list_in_the_template_fits_a_parameter_of_any_kind_of_list(annotation: Any) -> None:
    @resource("files://x{/path*}{?deep}")
    def read(path: annotation, deep: str = "") -> Any:
        return path

    entry = read.resource_entry  # type: ignore[attr-defined]
    value = entry.handler({"path": ["5", "5"]})
    assert list(getattr(value, "root", value)) in (["5", "5"], [5, 5], ["5"])


def test_a_list_of_the_template_may_be_an_additional_keyword() -> None:
    @resource("files://x{/path*}")
    def read(**rest: Any) -> Any:
        return rest

    assert read.resource_entry.handler({"path": ["a"]}) == {"path": ["a"]}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("marking", "completions", "line"),
    [
        (prompt, "city", "about: completions are 'city'. Pass lists by name"),
        (prompt, {"city": "Bonn"}, "about: completions for 'city' are text, 'Bonn'. Pass a list of texts"),
        (partial(resource, "cities://{city}"), ["Bonn"], "about: completions are ['Bonn']. Pass lists by name"),
    ],
)
def test_completions_that_are_text_are_rejected(marking: Callable[..., Any], completions: Any, line: str) -> None:
    with pytest.raises(TypeError) as error_info:

        @marking(completions=completions)
        def about(city: str) -> str:
            return city

    assert line in str(error_info.value)


# Sources


def accept_none(data: Any) -> str:
    return "nothing"


class MixedSource(Source):
    """A source with valid and invalid handwritten entries."""

    async def run(self, publish: Publish) -> None:
        publish(
            Offer(
                tools=[ToolEntry("fine", "", accept_none)],
                resources=[ResourceEntry("notes", accept_none), ResourceEntry("a://b", accept_none)],
                templates=[ResourceTemplate("a://{x}{y}", accept_none), ResourceTemplate("a://{x}/{y}", accept_none)],
            )
        )


PROBLEMS = [
    "resource 'notes' is not published: it is not a URI. Begin with a scheme, as in notes://today or users://{id}",
    "resource template 'a://{x}{y}' is not published: '{x}{y}': nothing separates 'x' from 'y'. "
    "Put text between them, or make them one variable",
]


async def test_an_entry_that_cannot_be_served_is_a_problem_and_the_other_ones_are_published() -> None:
    bridge = Bridge(sources=[AttachedSource(source=MixedSource("mixed"))])
    async with bridge.run_sources():
        await bridge.wait_until_started()
        assert bridge.problems["mixed"] == PROBLEMS
        assert bridge.registry.list_names() == ["fine"]
        assert [entry.uri for entry in bridge.registry.resources] == ["a://b"]
        assert [entry.uri_template for entry in bridge.registry.templates] == ["a://{x}/{y}"]


async def test_clients_read_and_complete_the_other_entries_of_the_offer() -> None:
    registry = ToolRegistry()
    bridge = Bridge(registry, sources=[AttachedSource(source=MixedSource("mixed"))])
    async with bridge.run_sources():
        await bridge.wait_until_started()
        async with connect(registry) as client:
            templates = (await client.list_resource_templates()).resource_templates
            assert [template.uri_template for template in templates] == ["a://{x}/{y}"]
            assert (await client.read_resource("a://1/2")).contents[0].text == "nothing"  # type: ignore[union-attr]
            completion = await client.complete(ResourceTemplateReference(uri="a://{x}/{y}"), {"name": "x", "value": ""})
            assert completion.completion.values == []


def run_validate(folder: Path, text: str) -> Any:
    """Return the report of `mcp-bridge validate` about a file, in a separate process."""
    (folder / "tools.py").write_text(text)
    command = [sys.executable, "-m", "mcp_bridge", "validate", "--json"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT)
    assert result.returncode == 1, result.stderr
    return json.loads(result.stdout)


def test_validate_reports_entries_that_serve_would_reject(tmp_path: Path) -> None:
    report = run_validate(
        tmp_path,
        "from mcp_bridge.sources import ResourceEntry, ResourceTemplate, ToolEntry\n"
        "fine = ToolEntry('fine', '', lambda data: 1)\n"
        "notes = ResourceEntry('notes', lambda data: 1)\n"
        "pair = ResourceTemplate('a://{x}{y}', lambda data: 1)\n",
    )
    assert (report["ok"], report["tools"], report["problems"]["tools"]) == (False, ["fine"], PROBLEMS)


def test_validate_reports_the_line_of_a_rejected_decorator(tmp_path: Path) -> None:
    report = run_validate(
        tmp_path,
        "from mcp_bridge import resource\n\n@resource('a://{x:3}')\ndef cut(x: str) -> str:\n    return x\n",
    )
    [problem] = report["problems"]["tools"]
    assert problem.startswith(f"{tmp_path / 'tools.py'}:3: ValueError: @resource('a://{{x:3}}'): '{{x:3}}': the length")
