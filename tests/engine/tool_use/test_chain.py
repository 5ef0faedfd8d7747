"""ToolChain: tools that run one after the other, each with the outputs of earlier ones."""

import anyio.lowlevel
import pytest

from mcp_bridge.tool_use import (
    ChainResult,
    ChainStep,
    Result,
    ResultStatus,
    ToolChain,
    ToolEntry,
    ToolRegistry,
    ValidationResult,
)

NO_STEPS = "Chain has no steps."
STRINGS = {"type": "string"}


@pytest.fixture
def registry():
    """Return a registry with echo (its input), add (a + b), fail (raises) and half (breaks its schema)."""

    def add(data):
        return data["a"] + data["b"]

    def fail(data):
        raise RuntimeError("boom")

    tools = ToolRegistry()
    tools.register(ToolEntry("echo", "", lambda data: data))
    tools.register(ToolEntry("add", "", add))
    tools.register(ToolEntry("fail", "", fail))
    tools.register(ToolEntry("half", "", lambda data: {"half": 1}, output_schema=STRINGS))
    return tools


def build_chain(registry, *steps):
    chain = ToolChain(registry)
    for step in steps:
        chain.add_step(step)
    return chain


def get_tool_input(registry, mapping, context):
    """Run a chain with this mapping in this context, and return the input of its tool."""
    outcome = build_chain(registry, ChainStep("echo", mapping, "seen")).execute(context)
    assert outcome.success
    return outcome.context["seen"]


# Building


def test_a_new_chain_is_empty(registry):
    chain = ToolChain(registry)
    assert len(chain) == 0
    assert chain.steps == []
    assert repr(chain) == "ToolChain(steps=[])"


def test_adding_a_step_returns_the_chain(registry):
    chain = ToolChain(registry)
    assert chain.add_step(ChainStep("echo")) is chain
    assert len(chain.add_step(ChainStep("add")).add_step(ChainStep("echo"))) == 3
    assert repr(chain) == "ToolChain(steps=['echo', 'add', 'echo'])"


def test_the_steps_are_a_copy_of_the_list(registry):
    step = ChainStep("echo")
    chain = build_chain(registry, step)
    assert chain.steps[0] is step
    chain.steps.append(ChainStep("add"))
    chain.steps.clear()
    assert chain.steps == [step]


def test_the_steps_cannot_be_assigned(registry):
    with pytest.raises(AttributeError):
        ToolChain(registry).steps = []


def test_clearing_removes_every_step(registry):
    chain = build_chain(registry, ChainStep("echo"), ChainStep("add"))
    assert chain.clear() is None
    assert len(chain) == 0
    assert chain.validate().errors == [NO_STEPS]


def test_chains_do_not_share_steps(registry):
    build_chain(registry, ChainStep("echo"))
    assert len(ToolChain(registry)) == 0


def test_a_step_as_a_dictionary_has_its_three_fields():
    assert ChainStep("echo", {"a": "b.c"}, "out").to_dict() == {
        "tool_name": "echo",
        "input_mapping": {"a": "b.c"},
        "output_key": "out",
    }
    assert ChainStep("echo").to_dict() == {"tool_name": "echo", "input_mapping": {}, "output_key": ""}


# Validating


def test_a_chain_of_known_tools_is_valid(registry):
    assert build_chain(registry, ChainStep("echo"), ChainStep("add")).validate() == ValidationResult(True, [])


def test_an_empty_chain_is_not_valid(registry):
    assert ToolChain(registry).validate() == ValidationResult(False, [NO_STEPS])


def test_every_step_that_cannot_run_is_named_by_its_index(registry):
    chain = build_chain(registry, ChainStep(""), ChainStep("nope"), ChainStep("echo"), ChainStep("gone"))
    assert chain.validate() == ValidationResult(
        False,
        [
            "Step 0: tool_name is empty.",
            "Step 1: tool 'nope' not found in registry.",
            "Step 3: tool 'gone' not found in registry.",
        ],
    )


def test_validation_asks_the_registry_as_it_is_now(registry):
    chain = build_chain(registry, ChainStep("late"))
    assert not chain.validate().valid
    registry.register(ToolEntry("late", "", lambda data: data))
    assert chain.validate().valid


# Executing


def test_outputs_of_earlier_steps_reach_later_ones(registry):
    chain = build_chain(
        registry,
        ChainStep("add", {"a": "x", "b": "y"}, "sum"),
        ChainStep("add", {"a": "sum", "b": "x"}, "total"),
    )
    outcome = chain.execute({"x": 1, "y": 2})
    assert isinstance(outcome, ChainResult)
    assert outcome.success is True
    assert outcome.context == {"x": 1, "y": 2, "sum": 3, "total": 4}
    assert outcome.errors == []
    assert [step.data for step in outcome.step_results] == [3, 4]
    assert all(isinstance(step, Result) and step.ok for step in outcome.step_results)


def test_a_chain_is_timed(registry):
    outcome = build_chain(registry, ChainStep("echo")).execute()
    assert isinstance(outcome.duration_ms, float)
    assert outcome.duration_ms >= outcome.step_results[0].duration_ms


def test_a_chain_starts_with_an_empty_context_unless_given_one(registry):
    outcome = build_chain(registry, ChainStep("echo", output_key="seen")).execute()
    assert outcome.context == {"seen": {}}
    assert build_chain(registry, ChainStep("echo", output_key="seen")).execute(None).context == {"seen": {}}
    assert build_chain(registry, ChainStep("echo", output_key="seen")).execute(initial_input={"a": 1}).success


def test_the_initial_input_is_copied(registry):
    arguments = {"x": 1}
    outcome = build_chain(registry, ChainStep("echo", output_key="seen")).execute(arguments)
    assert arguments == {"x": 1}
    assert outcome.context is not arguments


def test_the_options_of_execute_are_keywords_only(registry):
    with pytest.raises(TypeError):
        build_chain(registry, ChainStep("echo")).execute({}, True)


def test_a_chain_can_be_executed_again_from_the_start(registry):
    chain = build_chain(registry, ChainStep("add", {"a": "x", "b": "x"}, "x"))
    assert chain.execute({"x": 1}).context == {"x": 2}
    assert chain.execute({"x": 5}).context == {"x": 10}
    assert chain.execute({"x": 5}) is not chain.execute({"x": 5})


# What a tool is given


def test_without_a_mapping_the_tool_gets_the_whole_context(registry):
    assert get_tool_input(registry, {}, {"a": 1, "b": {"c": 2}}) == {"a": 1, "b": {"c": 2}}


def test_a_tool_that_changes_its_input_does_not_change_the_context(registry):
    registry.register(ToolEntry("litter", "", lambda data: data.update(junk=1)))
    outcome = build_chain(registry, ChainStep("litter")).execute({"a": 1})
    assert outcome.context == {"a": 1}


def test_a_mapping_gives_the_tool_only_what_it_names(registry):
    assert get_tool_input(registry, {"to": "a"}, {"a": 1, "b": 2}) == {"to": 1}


def test_a_dot_goes_one_level_down(registry):
    assert get_tool_input(registry, {"to": "x.y"}, {"x": {"y": 5}}) == {"to": 5}


def test_every_dot_goes_one_level_down(registry):
    context = {"x": {"y": {"z": {"w": 5}}}}
    assert get_tool_input(registry, {"z": "x.y.z", "w": "x.y.z.w"}, context) == {"z": {"w": 5}, "w": 5}


def test_a_literal_key_with_a_dot_below_the_first_level_is_found(registry):
    assert get_tool_input(registry, {"to": "x.y.z"}, {"x": {"y.z": 5}}) == {"to": 5}


@pytest.mark.parametrize(
    "source",
    [
        *("nope", "nope.a", "x.nope", "x.y.nope", "x.y.z.deeper", "text.a", "text.0", "none.a", "number.a"),
        *("list.0", "list.-1", "list.a", "x.", ".x", ".", "", "x..y", "x.y.", "text.upper", "x.items", "x.__class__"),
    ],
)
def test_a_missing_value_is_none(registry, source):
    context = {"x": {"y": {"z": 1}}, "text": "abc", "none": None, "number": 5, "list": [1, 2]}
    assert get_tool_input(registry, {"to": source}, context) == {"to": None}


@pytest.mark.parametrize("value", [0, False, "", [], {}, None])
def test_falsy_values_are_passed_on_unchanged(registry, value):
    [matches] = get_tool_input(registry, {"to": "x.y"}, {"x": {"y": value}}).values()
    assert matches is value


def test_mapped_values_are_validated_by_the_tool(registry):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    registry.register(ToolEntry("strict", "", lambda data: data, schema))
    outcome = build_chain(registry, ChainStep("strict", {"n": "missing"})).execute({})
    assert outcome.errors == [
        "$.n: expected type integer, got NoneType",
        "Step 0 ('strict') failed: Input validation failed for tool 'strict'.",
    ]


# What becomes of the output


@pytest.mark.parametrize("value", [5, None, [], {"a": 1}, "text"])
def test_an_output_key_stores_the_output_under_it(registry, value):
    registry.register(ToolEntry("give", "", lambda data: value))
    assert build_chain(registry, ChainStep("give", output_key="out")).execute().context == {"out": value}


def test_an_output_key_is_not_a_path(registry):
    assert build_chain(registry, ChainStep("add", {"a": "n", "b": "n"}, "x.y")).execute({"n": 1}).context == {
        "n": 1,
        "x.y": 2,
    }


def test_without_an_output_key_a_dictionary_is_merged_into_the_context(registry):
    registry.register(ToolEntry("give", "", lambda data: {"b": 2, "c": 3}))
    assert build_chain(registry, ChainStep("give")).execute({"a": 1, "b": 1}).context == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize("value", [5, None, "text", [("a", 1)], [1]])
def test_without_an_output_key_anything_else_is_dropped(registry, value):
    registry.register(ToolEntry("give", "", lambda data: value))
    outcome = build_chain(registry, ChainStep("give")).execute({"x": 1})
    assert outcome.success
    assert outcome.context == {"x": 1}
    assert outcome.step_results[0].data == value


# Failing


def test_a_chain_that_is_not_valid_runs_nothing(registry):
    ran = []
    registry.register(ToolEntry("run", "", ran.append))
    outcome = build_chain(registry, ChainStep("run"), ChainStep("nope")).execute({"x": 1})
    assert outcome.success is False
    assert outcome.errors == ["Step 1: tool 'nope' not found in registry."]
    assert outcome.context == {"x": 1}
    assert outcome.step_results == []
    assert ran == []


def test_an_empty_chain_fails(registry):
    outcome = ToolChain(registry).execute({"x": 1})
    assert outcome.success is False
    assert outcome.errors == [NO_STEPS]
    assert outcome.context == {"x": 1}


def test_an_empty_chain_succeeds_without_validation(registry):
    outcome = ToolChain(registry).execute({"x": 1}, validate_tools=False)
    assert outcome.success is True
    assert outcome.errors == []
    assert outcome.context == {"x": 1}
    assert outcome.step_results == []


def test_a_failing_step_stops_the_chain(registry):
    chain = build_chain(registry, ChainStep("add", {"a": "n", "b": "n"}, "sum"), ChainStep("fail"), ChainStep("echo"))
    outcome = chain.execute({"n": 1})
    assert outcome.success is False
    assert outcome.errors == ["boom", "Step 1 ('fail') failed: Tool 'fail' raised an exception: boom"]
    assert outcome.context == {"n": 1, "sum": 2}
    assert [step.status for step in outcome.step_results] == [ResultStatus.SUCCESS, ResultStatus.FAILURE]


def test_a_chain_continues_after_a_failure_without_stop_on_failure(registry):
    chain = build_chain(
        registry, ChainStep("fail", output_key="f"), ChainStep("add", {"a": "n", "b": "n"}, "sum"), ChainStep("fail")
    )
    outcome = chain.execute({"n": 1}, stop_on_failure=False)
    assert outcome.success is False
    assert outcome.context == {"n": 1, "sum": 2}
    assert outcome.errors == [
        "boom",
        "Step 0 ('fail') failed: Tool 'fail' raised an exception: boom",
        "boom",
        "Step 2 ('fail') failed: Tool 'fail' raised an exception: boom",
    ]
    assert [step.ok for step in outcome.step_results] == [False, True, False]


def test_an_unknown_tool_fails_its_step_without_validation(registry):
    outcome = build_chain(registry, ChainStep("echo"), ChainStep("zzz")).execute(validate_tools=False)
    assert outcome.success is False
    assert outcome.errors == ["Unknown tool: zzz", "Step 1 ('zzz') failed: Tool 'zzz' not found in registry."]
    assert len(outcome.step_results) == 2


@pytest.mark.parametrize("output_key", ["", "out"])
def test_an_output_that_breaks_its_schema_fails_the_step_and_is_not_stored(registry, output_key):
    outcome = build_chain(registry, ChainStep("half", output_key=output_key), ChainStep("echo")).execute({"x": 1})
    assert outcome.success is False
    assert outcome.context == {"x": 1}
    assert outcome.errors == [
        "$: expected type string, got dict",
        "Step 0 ('half') failed: Output validation failed for tool 'half'.",
    ]
    assert [step.status for step in outcome.step_results] == [ResultStatus.PARTIAL]
    assert outcome.step_results[0].data == {"half": 1}


# Results as dictionaries


def test_a_chain_result_starts_out_empty_and_successful():
    assert ChainResult() == ChainResult(True, {}, [], [], 0.0)


def test_a_chain_result_as_a_dictionary_has_its_steps_as_dictionaries():
    step = Result(ResultStatus.SUCCESS, data=1, message="done", duration_ms=0.5)
    outcome = ChainResult(False, {"x": 1}, [step], ["bad"], 1.5)
    assert outcome.to_dict() == {
        "success": False,
        "context": {"x": 1},
        "step_results": [
            {"status": "success", "data": 1, "message": "done", "errors": [], "metadata": {}, "duration_ms": 0.5}
        ],
        "errors": ["bad"],
        "duration_ms": 1.5,
    }


# Async tools


@pytest.fixture
def async_registry():
    async def add(data):
        await anyio.lowlevel.checkpoint()
        return data["a"] + data["b"]

    tools = ToolRegistry()
    tools.register(ToolEntry("add", "", add))
    return tools


def sum_twice(registry):
    chain = build_chain(
        registry, ChainStep("add", {"a": "x", "b": "y"}, "sum"), ChainStep("add", {"a": "sum", "b": "sum"}, "total")
    )
    return chain.execute({"x": 1, "y": 2}).context


def test_async_tools_run_in_a_chain(async_registry):
    assert sum_twice(async_registry) == {"x": 1, "y": 2, "sum": 3, "total": 6}


async def test_async_tools_run_in_a_chain_inside_an_event_loop(async_registry):
    assert sum_twice(async_registry) == {"x": 1, "y": 2, "sum": 3, "total": 6}


def test_a_chain_can_be_a_tool(registry):
    chain = build_chain(registry, ChainStep("add", {"a": "x", "b": "x"}, "y"), ChainStep("fail"))
    registry.register(ToolEntry("chain", "", lambda data: chain.execute(data).to_dict()))
    answer = registry.invoke("chain", {"x": 2}).data
    assert answer["context"] == {"x": 2, "y": 4}
    assert answer["errors"][-1] == "Step 1 ('fail') failed: Tool 'fail' raised an exception: boom"
