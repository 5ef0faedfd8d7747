"""A call passes few functions: who follows one from the transport to the handler and back reads no more than these."""

from __future__ import annotations

from benchmarks.call_path import trace_call

FUNCTIONS, FILES = 75, 27


def test_a_call_over_stdio_passes_few_functions_in_few_files() -> None:
    functions = trace_call("bridge")
    assert len(functions) <= FUNCTIONS, functions
    assert len({file for file, _ in functions}) <= FILES, functions
