"""The shape of the tool_use API: names, signatures, fields, defaults."""

import dataclasses
import inspect
from inspect import Parameter

import pytest

import mcp_bridge
import mcp_bridge.tool_use as api

NAMES = [
    *("ChainResult", "ChainStep", "Result", "ResultStatus", "ToolChain", "ToolDefinition", "ToolEntry"),
    *("ToolRegistry", "ValidationResult", "tool", "validate_input", "validate_output"),
]
NONE = Parameter.empty
POSITIONAL, KEYWORD = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY


def get_parameters(function):
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default) for p in parameters if p.name != "self"]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_api_is_public(name):
    assert hasattr(api, name)
    assert name in api.__all__


@pytest.mark.parametrize("name", ["CallContext", "ToolEntry", "ToolError", "ToolRegistry", "ToolResult", "tool"])
def test_the_root_package_exports_the_names_that_authors_need(name):
    assert hasattr(mcp_bridge, name)
    assert name in mcp_bridge.__all__
    assert name in dir(mcp_bridge)


@pytest.mark.parametrize("name", ["ChainStep", "ToolChain", "ToolDefinition", "ToolEntry", "ToolRegistry"])
def test_both_modules_export_the_same_object(name):
    assert getattr(mcp_bridge, name) is getattr(api, name)


# Signatures

SIGNATURES = [
    (api.validate_input, [("data", POSITIONAL, NONE), ("schema", POSITIONAL, NONE)]),
    (api.validate_output, [("data", POSITIONAL, NONE), ("schema", POSITIONAL, NONE)]),
    (api.ValidationResult.merge, [("other", POSITIONAL, NONE)]),
    (api.ValidationResult.to_dict, []),
    (api.ToolEntry.to_tool_definition, [("module", POSITIONAL, "tool_use")]),
    (api.ToolEntry.to_dict, []),
    (api.ToolRegistry.register, [("entry", POSITIONAL, NONE)]),
    (api.ToolRegistry.unregister, [("name", POSITIONAL, NONE)]),
    (api.ToolRegistry.get, [("name", POSITIONAL, NONE)]),
    (api.ToolRegistry.list, []),
    (api.ToolRegistry.list_names, []),
    (
        api.ToolRegistry.search,
        [("name_contains", KEYWORD, None), ("tags", KEYWORD, None), ("match_all_tags", KEYWORD, False)],
    ),
    (
        api.ToolRegistry.invoke,
        [("name", POSITIONAL, NONE), ("input_data", POSITIONAL, None), ("validate", KEYWORD, True)],
    ),
    (
        api.ToolRegistry.ainvoke,
        [("name", POSITIONAL, NONE), ("input_data", POSITIONAL, None), ("validate", KEYWORD, True)],
    ),
    (api.ToolRegistry.dispatch, [("call", POSITIONAL, NONE), ("ctx", POSITIONAL, NONE)]),
    (api.ChainStep.to_dict, []),
    (api.ChainResult.to_dict, []),
    (api.ToolChain.add_step, [("step", POSITIONAL, NONE)]),
    (api.ToolChain.validate, []),
    (
        api.ToolChain.execute,
        [
            ("initial_input", POSITIONAL, None),
            ("stop_on_failure", KEYWORD, True),
            ("validate_tools", KEYWORD, True),
        ],
    ),
    (api.ToolChain.clear, []),
    (api.Result.to_dict, []),
]


@pytest.mark.parametrize(("function", "parameters"), SIGNATURES, ids=lambda value: getattr(value, "__qualname__", ""))
def test_a_function_has_the_signature_of_the_specification(function, parameters):
    assert get_parameters(function) == parameters


def test_the_decorator_has_the_parameters_of_the_specification_first():
    parameters = get_parameters(api.tool)
    assert [name for name, _, _ in parameters[:6]] == [
        *("name", "description", "input_schema", "output_schema", "tags", "registry")
    ]
    assert {parameter_kind for _, parameter_kind, _ in parameters[:6]} == {POSITIONAL}
    assert [default for _, _, default in parameters[1:6]] == ["", None, None, None, None]
    assert all(parameter_kind is KEYWORD and default is not NONE for _, parameter_kind, default in parameters[6:])


def test_a_registry_is_created_without_arguments():
    assert all(
        default is not NONE and parameter_kind is KEYWORD
        for _, parameter_kind, default in get_parameters(api.ToolRegistry)
    )
    assert len(api.ToolRegistry()) == 0


def test_a_chain_needs_a_registry_alone():
    first, *parameters = get_parameters(api.ToolChain)
    assert first == ("registry", POSITIONAL, NONE)
    assert all(parameter_kind is KEYWORD and default is not NONE for _, parameter_kind, default in parameters)


def test_only_the_async_doors_are_coroutine_functions():
    assert inspect.iscoroutinefunction(api.ToolRegistry.ainvoke)
    assert inspect.iscoroutinefunction(api.ToolRegistry.dispatch)
    assert not inspect.iscoroutinefunction(api.ToolRegistry.invoke)
    assert not inspect.iscoroutinefunction(api.ToolChain.execute)


@pytest.mark.parametrize(
    ("cls", "methods"),
    [(api.ToolRegistry, {"__len__", "__contains__", "__repr__"}), (api.ToolChain, {"__len__", "__repr__"})],
)
def test_the_special_methods_are_those_of_the_class(cls, methods):
    assert methods <= set(vars(cls))


def test_the_steps_of_a_chain_are_a_property_without_a_setter():
    steps = inspect.getattr_static(api.ToolChain, "steps")
    assert isinstance(steps, property)
    assert steps.fset is None


# Fields

LIST, DICT, REQUIRED = list, dict, object()
ENTRY = {
    "name": REQUIRED,
    "description": REQUIRED,
    "handler": REQUIRED,
    "input_schema": DICT,
    "output_schema": DICT,
    "tags": LIST,
}
FIELDS = {
    api.ValidationResult: {"valid": True, "errors": LIST},
    api.ToolEntry: ENTRY,
    api.ToolDefinition: {"name": REQUIRED, "description": REQUIRED, "module": REQUIRED}
    | {"input_schema": DICT, "output_schema": DICT, "tags": LIST},
    api.ChainStep: {"tool_name": REQUIRED, "input_mapping": DICT, "output_key": ""},
    api.ChainResult: {"success": True, "context": DICT, "step_results": LIST, "errors": LIST, "duration_ms": 0.0},
    api.Result: {
        "status": REQUIRED,
        "data": None,
        "message": "",
        "errors": LIST,
        "metadata": DICT,
        "duration_ms": None,
    },
}


def get_default(field):
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    return REQUIRED if field.default is dataclasses.MISSING else field.default


@pytest.mark.parametrize(("cls", "fields"), FIELDS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_a_dataclass_has_the_fields_of_the_specification_in_order(cls, fields):
    positional = {field.name: get_default(field) for field in dataclasses.fields(cls) if not field.kw_only}
    assert list(positional.items()) == list(fields.items())


@pytest.mark.parametrize("cls", FIELDS, ids=lambda cls: cls.__name__)
def test_further_fields_are_keywords_with_a_default(cls):
    further = [field for field in dataclasses.fields(cls) if field.name not in FIELDS[cls]]
    assert all(field.kw_only and get_default(field) is not REQUIRED for field in further)


@pytest.mark.parametrize("cls", FIELDS, ids=lambda cls: cls.__name__)
def test_instances_are_mutable_and_do_not_share_their_defaults(cls):
    needs = [None for default in FIELDS[cls].values() if default is REQUIRED]
    first, second = cls(*needs), cls(*needs)
    for name, default in FIELDS[cls].items():
        if default in (LIST, DICT):
            assert getattr(first, name) == default()
            assert getattr(first, name) is not getattr(second, name)
        setattr(first, name, "changed")
        assert getattr(first, name) == "changed"


def test_the_statuses_have_lower_case_values():
    assert {status.name: status.value for status in api.ResultStatus} == {
        "SUCCESS": "success",
        "FAILURE": "failure",
        "PARTIAL": "partial",
        "SKIPPED": "skipped",
        "TIMEOUT": "timeout",
    }


@pytest.mark.parametrize("status", api.ResultStatus, ids=lambda status: status.name)
def test_only_success_is_ok(status):
    assert api.Result(status).ok is (status is api.ResultStatus.SUCCESS)


def test_a_result_as_a_dictionary_has_every_field_and_the_status_as_its_value():
    assert api.Result(api.ResultStatus.PARTIAL, 1, "m", ["e"], {"k": 2}, 0.5).to_dict() == {
        "status": "partial",
        "data": 1,
        "message": "m",
        "errors": ["e"],
        "metadata": {"k": 2},
        "duration_ms": 0.5,
    }
