"""A settings file becomes checked settings, or one error with all mistakes."""

import json
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

import mcp_bridge._settings
from mcp_bridge._contracts.errors import ConfigError
from mcp_bridge._settings import (
    Document,
    Settings,
    SettingsModel,
    SourceSettings,
    build_json_schema,
    load,
    parse,
    parse_options,
)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Basic(SettingsModel):
    kind: Literal["basic"]
    user: str


class Bearer(SettingsModel):
    kind: Literal["bearer"]
    bearer_value: str


class WebOptions(BaseModel):
    """Options of a source in these tests."""

    url: str = Field(pattern="^https?://", description="Where it is.")
    retries: int = 3
    login: Annotated[Basic | Bearer, Field(discriminator="kind")] | None = None
    peers: list[Basic] = []
    headers: dict[str, str] = {}
    colour: Colour = Colour.RED
    from_: str | None = Field(None, alias="from")
    either: int | list[int] = 0

    @field_validator("url")
    @classmethod
    def _reachable(cls, value: str) -> str:
        if "bad" in value:
            raise ValueError(f"{value} is not a place")
        return value

    @field_validator("from_")
    @classmethod
    def _known(cls, value: str) -> str:
        if len(value) == 2:
            raise ValueError(f"no place {value}")
        return value

    @model_validator(mode="after")
    def _whole(self) -> "WebOptions":
        if self.retries == 13:
            raise ValueError(f"13 retries of {self.url} with {self.headers}.")
        return self


class OpenOptions(BaseModel):
    model_config = ConfigDict(extra="allow")
    path: str


def write(folder: Path, text: str, name: str = "settings.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture
def settings(tmp_path):
    """Return a function that loads a YAML text as settings."""
    return lambda text, **environ: load(write(tmp_path, text), environ)


@pytest.fixture
def problems(tmp_path):
    """Return a function that lists the problems of a YAML text as lines `line: where: problem`."""

    def list_problems(text: str, model: type[BaseModel] | None = None, /, **environ: str) -> list[str]:
        path = write(tmp_path, text)

        def load_all() -> None:
            result = load(path, environ)
            assert model is not None, "the settings are right"
            parse_options(model, result.sources[0])

        with pytest.raises(ConfigError) as caught:
            load_all()
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
        return [line.removeprefix(f"{path}:") for line in str(caught.value).splitlines()]

    return list_problems


# Loaded settings.


def test_an_empty_list_of_sources_gives_the_defaults(settings):
    result = settings("sources: []")
    assert (result.name, result.version, result.title, result.instructions) == (None, None, None, None)
    assert (result.limits.timeout, result.limits.threads) == (60, 64)
    assert (result.http.host, result.http.port, result.http.token_env) == ("127.0.0.1", 8808, None)
    assert result.limits.arguments == 4 * 2**20
    assert (result.http.allowed_hosts, result.http.allowed_origins) == ((), ())
    assert (result.expose_errors, result.sources) == (False, ())


def test_common_keys_of_a_source_are_separate_from_its_options(settings):
    source = settings("""
sources:
  - type: python
    name: mine
    prefix: p
    alias: {a: b}
    include: [x*]
    exclude: [y]
    tags: [t]
    path: tools.py
    options: {deep: 1}
    origin: here
""").sources[0]
    assert (source.type, source.name, source.prefix, source.alias) == ("python", "mine", "p", {"a": "b"})
    assert (source.include, source.exclude, source.tags) == (("x*",), ("y",), ("t",))
    assert source.options == {"path": "tools.py", "options": {"deep": 1}, "origin": "here"}


def test_json_and_toml_load_as_yaml_does(tmp_path):
    yaml = load(write(tmp_path, "name: x\nsources: [{type: python, path: a}]"), {})
    second = load(write(tmp_path, '{"name": "x", "sources": [{"type": "python", "path": "a"}]}', "s.json"), {})
    third = load(write(tmp_path, 'name = "x"\n[[sources]]\ntype = "python"\npath = "a"\n', "s.toml"), {})
    assert yaml.model_dump() == second.model_dump() == third.model_dump()


def test_settings_have_their_folder_and_their_secrets(tmp_path, monkeypatch):
    write(tmp_path, "name: x\ntitle: ${T}")
    monkeypatch.chdir(tmp_path)
    result = load(Path("settings.yaml"), {"T": "hunter2"})
    assert result.directory == tmp_path
    assert result.secrets == {"hunter2"}


def test_settings_made_in_memory_have_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert parse(Document(path="", data={}), {}).directory == tmp_path
    assert Settings().secrets == frozenset()


def test_settings_are_frozen(settings):
    with pytest.raises(ValidationError):
        settings("name: x").name = "y"


def test_options_are_not_in_the_repr_of_a_source(settings):
    assert "hunter2" not in repr(settings("sources: [{type: web, url: '${U}'}]", U="hunter2"))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1.5", 1.5), ("'90'", 90), ("90s", 90), ("1h", 3600), ("250ms", 0.25), ("1.5 m", 90)],
)
def test_a_timeout_is_seconds_or_text_with_a_unit(settings, text, seconds):
    assert settings(f"limits: {{timeout: {text}}}").limits.timeout == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("100", 100),
        ("'100'", 100),
        ("1 MiB", 2**20),
        ("2MB", 2_000_000),
        ("1.5kib", 1536),
        ("1GiB", 2**30),
    ],
)
def test_a_size_is_bytes_or_text_with_a_unit(settings, text, size):
    assert settings(f"limits: {{arguments: {text}}}").limits.arguments == size


def test_numbers_and_truth_values_may_come_from_the_environment(settings):
    result = settings("http: {port: '${P}'}\nexpose_errors: ${R}\nlimits: {threads: '${N:-4}'}", P="9000", R="true")
    assert (result.http.port, result.expose_errors, result.limits.threads) == (9000, True, 4)


# Rejected settings.


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: 5", "1: name: expected text, found the number 5"),
        ("name: ''", "1: name: expected text of 1 or more characters, found text ''"),
        ("http: {host: }", "1: http.host: expected text, found nothing (null)"),
        ("expose_errors: 7", "1: expose_errors: expected true or false, found the number 7"),
        ("limits: {timeout: 0}", "1: limits.timeout: expected more than 0, found the number 0"),
        (
            "limits: {timeout: 5 MiB}",
            "1: limits.timeout: expected seconds, or text such as '90s', '5m' or '1h', found text '5 MiB'",
        ),
        (
            "limits: {timeout: true}",
            "1: limits.timeout: expected seconds, or text such as '90s', '5m' or '1h', found true",
        ),
        ("limits: {threads: 1025}", "1: limits.threads: expected 1024 or less, found the number 1025"),
        ("limits: {threads: false}", "1: limits.threads: expected a whole number, found false"),
        ("limits: {threads: 1.5}", "1: limits.threads: expected a whole number, found the number 1.5"),
        ("http: {port: 65536}", "1: http.port: expected 65535 or less, found the number 65536"),
        ("limits: {arguments: 0}", "1: limits.arguments: expected 1 or more, found the number 0"),
        (
            "limits: {arguments: 1 M}",
            "1: limits.arguments: expected bytes, or text such as '512 KiB', '1 MiB' or '2MB', found text '1 M'",
        ),
        (
            "limits: {arguments: [1]}",
            "1: limits.arguments: expected bytes, or text such as '512 KiB', '1 MiB' or '2MB', found a list",
        ),
        ("http: {allowed_hosts: a}", "1: http.allowed_hosts: expected a list, found text 'a'"),
        ("sources: {a: 1}", "1: sources: expected a list, found a mapping"),
        ("sources: [python]", "1: sources[0]: expected a mapping of keys to values, found text 'python'"),
        ("sources:\n- name: x", "2: sources[0].type: this key is required. Add it."),
        ("sources:\n- type: x\n  alias: {a: 1}", "3: sources[0].alias.a: expected text, found the number 1"),
    ],
)
def test_an_invalid_value_is_reported_with_the_expected_one(problems, text, problem):
    assert problems(text) == [problem]


def test_long_text_is_shortened(problems):
    problem = f"1: expose_errors: expected true or false, found text '{'x' * 60}…'"
    assert problems(f"expose_errors: {'x' * 500}") == [problem]


def test_an_unknown_key_is_reported_with_the_nearest_known_one(problems):
    assert problems("name: x\nsorces: []") == ["2: sorces: unknown key 'sorces', did you mean 'sources'?"]


def test_an_unknown_key_in_a_part_is_compared_with_the_keys_of_that_part(problems):
    text = "http:\n  prot: 1\n"
    assert problems(text) == ["2: http.prot: unknown key 'prot', did you mean 'port'?"]


def test_an_unknown_key_without_a_similar_one_is_reported_with_all_known_ones(problems):
    assert problems("limits: {zzz: 1}") == [
        "1: limits.zzz: unknown key 'zzz'. Known keys: arguments, concurrency, drain, result, threads, timeout, tools."
    ]


@pytest.mark.parametrize("key", ["mcpClients", "directory", "_secrets"])
def test_fields_that_do_not_belong_to_the_file_are_unknown_keys(problems, key):
    assert f"unknown key '{key}'" in problems(f"{key}: {{}}")[0]


def test_all_problems_are_reported_in_the_order_of_the_file(problems):
    messages = problems("zzz: 1\nlimits:\n  threads: 0\nsources:\n  - type: 1\nname: 2\n")
    assert [line.split(": ")[:2] for line in messages] == [
        ["1", "zzz"],
        ["3", "limits.threads"],
        ["5", "sources[0].type"],
        ["6", "name"],
    ]


def test_the_first_problem_leads_the_error(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, "name: 1\ntitle: 2"), {})
    assert (caught.value.line, caught.value.where) == (1, "name")


def test_a_value_from_the_environment_is_never_shown(problems):
    messages = problems("http: {port: 'x${P}'}\nname: 1", P="hunter2")
    assert messages == [
        "1: http.port: expected a whole number, found text (not shown)",
        "2: name: expected text, found the number 1",
    ]


@pytest.mark.parametrize("key", ["clientSecret", "api-key", "Authorization"])
def test_a_value_under_the_key_of_a_secret_is_never_shown(problems, key):
    messages = problems(f"sources: [{{type: web, url: 'http://a', headers: {{{key}: 123456}}}}]", WebOptions)
    assert messages[0].endswith("expected text, found a whole number (not shown)")


# The options of a source.


def test_options_become_an_instance_of_the_model_of_the_source(settings):
    source = settings("sources: [{type: web, name: n, url: 'http://a', from: b}]").sources[0]
    result = parse_options(WebOptions, source)
    assert isinstance(result, WebOptions)
    assert (result.url, result.from_, result.retries) == ("http://a", "b", 3)


@pytest.mark.parametrize(
    ("entry", "problem_lines"),
    [
        ("retries: 1", ["2: sources[0].url: this key is required. Add it."]),
        ("url: ftp://x", ["3: sources[0].url: expected text that matches ^https?://, found text 'ftp://x'"]),
        ("url: http://a\n  retires: 1", ["4: sources[0].retires: unknown key 'retires', did you mean 'retries'?"]),
        ("url: http://a\n  prefx: 1", ["4: sources[0].prefx: unknown key 'prefx', did you mean 'prefix'?"]),
        (
            "url: http://a\n  colour: green",
            ["4: sources[0].colour: expected one of 'red' or 'blue', found text 'green'"],
        ),
        (
            "url: http://a\n  peers:\n  - {kind: basic, usr: x}",
            [
                "5: sources[0].peers[0].user: this key is required. Add it.",
                "5: sources[0].peers[0].usr: unknown key 'usr', did you mean 'user'?",
            ],
        ),
        ("url: http://a\n  login: {kind: bearer}", ["4: sources[0].login.bearer_value: this key is required. Add it."]),
        (
            "url: http://a\n  login: {kind: basic, user: u, bearer_valu: x}",
            ["4: sources[0].login.bearer_valu: unknown key 'bearer_valu', did you mean 'bearer_value'?"],
        ),
        (
            "url: http://a\n  either: x",
            [
                "4: sources[0].either: expected a whole number, found text 'x'",
                "4: sources[0].either: expected a list, found text 'x'",
            ],
        ),
        (
            "url: http://a\n  either: [1, x]",
            [
                "4: sources[0].either: expected a whole number, found a list",
                "4: sources[0].either[1]: expected a whole number, found text 'x'",
            ],
        ),
        ("url: http://bad", ["3: sources[0].url: http://bad is not a place, found text 'http://bad'"]),
    ],
)
def test_problems_of_options_are_reported_with_their_line(problems, entry, problem_lines):
    assert problems(f"sources:\n- type: web\n  {entry}\n", WebOptions) == problem_lines


def test_an_unknown_option_without_a_similar_one_is_reported_with_common_keys_and_options(problems):
    messages = problems("sources: [{type: web, url: 'http://a', zzzzzz: 1}]", WebOptions)
    assert "alias, colour, either, exclude, from, headers" in messages[0]
    assert "from_" not in messages[0]


def test_a_validator_of_a_source_cannot_reveal_a_secret(problems):
    messages = problems("sources: [{type: web, url: 'http://bad/${S}'}]", WebOptions, S="it's me")
    assert messages == ["1: sources[0].url: *** is not a place, found text (not shown)"]


def test_a_validator_of_a_source_cannot_reveal_a_short_secret(problems):
    messages = problems("sources: [{type: web, url: 'http://a', from: '${S}'}]", WebOptions, S="xy")
    assert messages == ["1: sources[0].from: no place ***, found text (not shown)"]


def test_a_validator_of_all_options_cannot_reveal_a_secret(problems):
    text = "sources: [{type: web, url: 'http://x/${S}/y', retries: 13, headers: {token: pass\\word}}]"
    messages = problems(text, WebOptions, S="hunter2")
    assert messages == ["1: sources[0]: 13 retries of *** with {'token': '***'}"]


def test_a_union_tag_from_the_environment_is_not_shown(problems):
    messages = problems("sources: [{type: web, url: 'http://a', login: {kind: '${K}'}}]", WebOptions, K="hunter2")
    assert "hunter2" not in "".join(messages)


def test_a_model_that_allows_other_keys_gets_them(settings):
    result: Any = parse_options(OpenOptions, settings("sources: [{type: any, path: p, other: 1}]").sources[0])
    assert result.other == 1


def test_options_of_a_source_made_in_code_have_errors_without_a_file():
    with pytest.raises(ConfigError) as caught:
        parse_options(WebOptions, SourceSettings(type="web", options={"url": 3}))
    assert str(caught.value) == "url: expected text, found the number 3"


# The schema for editors.

MODELS = {"web": WebOptions, "any": OpenOptions}


def is_accepted(data: Any) -> bool:
    return jsonschema.Draft202012Validator(build_json_schema(MODELS)).is_valid(data)


def test_the_exported_schema_is_a_schema_of_2020_12():
    schema = build_json_schema(MODELS)
    assert schema["$schema"].endswith("2020-12/schema")
    jsonschema.Draft202012Validator.check_schema(schema)
    json.dumps(schema)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {
            "name": "x",
            "limits": {"timeout": "5m", "threads": 3},
            "http": {"idle": "1m", "port": "${PORT}"},
            "expose_errors": "${R:-no}",
        },
        {"sources": [{"type": "web", "url": "http://a", "prefix": "p", "from": "b", "retries": "${N}"}]},
        {"sources": [{"type": "web", "url": "http://a", "login": {"kind": "basic", "user": "u"}}]},
        {"sources": [{"type": "any", "path": "p", "other": 1}, {"type": "my.plugin:Source", "what": 1}]},
    ],
)
def test_the_schema_accepts_what_loads(data):
    assert is_accepted(data)
    parse(Document(path="", data=data), {"PORT": "1", "N": "2"})


@pytest.mark.parametrize(
    "data",
    [
        {"sorces": []},
        {"limits": {"timeout": 0}},
        {"http": {"port": 65536}},
        {"sources": [{"name": "x"}]},
        {"sources": [{"type": "wbe"}]},
        {"sources": [{"type": "web", "url": "http://a", "retires": 1}]},
        {"sources": [{"type": "web", "url": "http://a", "options": {}}]},
        {"sources": [{"type": "web", "url": "http://a", "login": {"kind": "basic"}}]},
    ],
)
def test_the_schema_rejects_what_does_not_load(data):
    assert not is_accepted(data)


def test_a_schema_without_source_types_accepts_only_plugins():
    validator = jsonschema.Draft202012Validator(build_json_schema({}))
    assert validator.is_valid({"sources": [{"type": "a:b"}]})
    assert not validator.is_valid({"sources": [{"type": "web"}]})


def test_every_key_of_the_file_is_described_in_the_schema():
    schema = build_json_schema(MODELS)
    sections = [name for name in schema["$defs"] if name.endswith("Settings")]
    sections = [name for name in sections if name not in ("SourceSettings", "PolicySettings")]
    assert {"ApprovalSettings", "HttpSettings", "LimitSettings", "StateSettings"} <= set(sections)
    parts = [schema, *(schema["$defs"][name] for name in sections)]
    properties = [item for section in parts for item in section["properties"].items()]
    common_keys = set(SourceSettings.model_fields) - {"options", "origin"}
    properties += [(key, schema["$defs"]["source:web"]["properties"][key]) for key in common_keys]
    assert len(properties) > 60
    for key, item in properties:
        description = item.get("description")
        if not description:
            # The description of a section is in its definition.
            description = schema["$defs"][item["$ref"].removeprefix("#/$defs/")]["description"]
        assert description.endswith("."), key


# The package.


def test_importing_the_settings_imports_neither_pydantic_nor_yaml():
    code = "import sys, mcp_bridge._settings as _; print({'pydantic', 'ruamel.yaml', 'ruamel'} & {*sys.modules} or [])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_all_public_names_exist():
    assert [name for name in mcp_bridge._settings.__all__ if not hasattr(mcp_bridge._settings, name)] == []
    with pytest.raises(AttributeError, match="nothing"):
        mcp_bridge._settings.nothing
