"""The order of completions: exact, prefix, prefix of a word, substring, letters in order."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bridge._server.completions import rank_values


def test_closer_matches_are_ranked_first() -> None:
    values = ["pie and yoghurt", "upython", "ruby", "lib/python", "Python", "PY"]
    assert rank_values(values, "py") == (["PY", "Python", "lib/python", "upython", "pie and yoghurt"], 5)


@pytest.mark.parametrize("typed", ["ete", "ÉTÉ", "éte", "e\u0301te\u0301"])
def test_case_and_accents_do_not_count(typed: str) -> None:
    assert rank_values(["hiver", "Été", "ETE", "été indien"], typed) == (["Été", "ETE", "été indien"], 3)


def test_what_cannot_be_written_in_one_case_is_found_too() -> None:
    assert rank_values(["Straße", "Strand"], "STRASSE") == (["Straße"], 1)


def test_a_word_begins_after_any_character_except_letters_and_digits() -> None:
    values = ["remaining", "src/main.py", "the main", "do_main", "domain"]
    assert rank_values(values, "main") == (["src/main.py", "the main", "do_main", "remaining", "domain"], 5)


def test_a_word_that_begins_with_it_counts_where_it_is_inside_another_before() -> None:
    assert rank_values(["domain", "domain main"], "main")[0] == ["domain main", "domain"]


def test_letters_count_in_their_order_alone() -> None:
    assert rank_values(["docker-compose", "compose-docker"], "dcm") == (["docker-compose"], 1)
    assert rank_values(["aba"], "bb") == ([], 0)


def test_equal_values_are_returned_once_in_the_original_order() -> None:
    assert rank_values(["b2", "b1", "b2", "a"], "b") == (["b2", "b1"], 2)
    assert rank_values(["b", "a", "b"], "") == (["b", "a"], 2)


@pytest.mark.parametrize("typed", ["", "v"])
def test_the_number_of_truncated_items_is_reported(typed: str) -> None:
    values = [f"v{number:03}" for number in range(250)]
    assert rank_values(iter(values), typed) == (values[:100], 250)
    assert rank_values(iter(values), typed, limit=2) == (values[:2], 250)


def test_no_value_matches_an_empty_list() -> None:
    assert rank_values([], "a") == rank_values(["b"], "a") == ([], 0)


def test_a_value_that_is_too_long_to_type_is_left_out() -> None:
    assert rank_values(["a" * 1000, "a" * 1001], "a") == (["a" * 1000], 1)
    assert rank_values(["a" * 1001, "b"], "") == (["b"], 1)


def test_endless_values_are_compared_up_to_a_bound() -> None:
    assert rank_values(map(str, itertools.count()), "1", limit=2)[0] == ["1", "10"]
    assert rank_values((f"{number:0>1000}" for number in itertools.count()), "1")[1] <= 1000


def test_a_character_that_is_decomposed_into_many_is_compared_by_its_beginning() -> None:
    long = "\ufdfa" * 1000
    assert rank_values([long, "a"], long) == ([long], 1)


@given(st.lists(st.text()), st.text())
def test_every_value_with_the_text_matches_and_no_value_is_invented(values: list[str], typed: str) -> None:
    matches, total = rank_values(values, typed, limit=len(values))
    assert len(matches) == total == len(set(matches))
    assert {value for value in values if typed in value} <= set(matches) <= set(values)
