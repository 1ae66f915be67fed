"""Selectors of labels, fields and nodes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core import core_v1, meta_v1
from cathedra.api.selectors import (
    SelectorError,
    from_label_selector,
    node_selector_matches,
    parse_field_selector,
    parse_label_selector,
)
from cathedra.api.struct import from_dict

keys = st.sampled_from(("a", "b", "example.com/c"))
values = st.sampled_from(("", "x", "y", "1", "2"))
labels = st.dictionaries(keys, values)


@pytest.mark.parametrize(
    ("text", "found", "matches"),
    [
        ("", {}, True),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("a=x", {"a": "x"}, True),
        ("a==x", {"a": "y"}, False),
        ("a!=x", {}, True),
        ("a in (x, y)", {"a": "y"}, True),
        ("a notin (x,y)", {"a": "y"}, False),
        ("a notin (x)", {}, True),
        ("a>1", {"a": "2"}, True),
        ("a<1", {"a": "2"}, False),
        ("a>1", {"a": "x"}, False),
        ("a in ()", {"a": ""}, True),
        ("a in ()", {"a": "x"}, False),
        ("a=x,b", {"a": "x", "b": "z"}, True),
    ],
)
def test_a_label_selector_selects(text: str, found: Mapping[str, str], matches: bool) -> None:
    assert parse_label_selector(text).matches(found) is matches


@pytest.mark.parametrize("text", ["a=", "a in x", "a,,b", "=x", "a in (x", "a b", "a>x", "-a", "a=x y"])
def test_what_is_no_label_selector_is_refused_or_means_the_empty_value(text: str) -> None:
    if text == "a=":
        assert parse_label_selector(text).matches({"a": ""})
        return
    with pytest.raises(SelectorError):
        parse_label_selector(text)


@settings(max_examples=80)
@given(labels, st.dictionaries(keys, values, max_size=2), keys, st.lists(values, min_size=1, max_size=3, unique=True))
def test_a_selector_object_means_what_its_text_means(
    found: dict[str, str], wanted: dict[str, str], key: str, among: list[str]
) -> None:
    expression = meta_v1.LabelSelectorRequirement(key=key, operator="In", values=tuple(among))
    selector = from_label_selector(meta_v1.LabelSelector(match_labels=wanted, match_expressions=(expression,)))
    again = parse_label_selector(str(selector))
    assert selector.matches(found) is again.matches(found)
    expected = all(found.get(name) == value for name, value in wanted.items()) and found.get(key) in among
    assert selector.matches(found) is expected


@settings(max_examples=60)
@given(labels, keys, st.lists(values, min_size=1, max_size=3, unique=True))
def test_in_and_notin_are_opposites(found: dict[str, str], key: str, among: list[str]) -> None:
    listed = ",".join(among)
    chosen = parse_label_selector(f"{key} in ({listed})").matches(found)
    assert parse_label_selector(f"{key} notin ({listed})").matches(found) is not chosen


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not from_label_selector(None).matches({"a": "x"})
    assert from_label_selector(meta_v1.LabelSelector()).matches({})


def test_field_selectors_compare_texts_and_know_escapes() -> None:
    selector = parse_field_selector("spec.nodeName=n1,status.phase!=Failed")
    assert selector.matches({"spec.nodeName": "n1", "status.phase": "Running"})
    assert not selector.matches({"spec.nodeName": "n1", "status.phase": "Failed"})
    assert selector.required("spec.nodeName") == "n1"
    assert selector.required("status.phase") is None
    assert parse_field_selector(r"a=x\,y").matches({"a": "x,y"})
    with pytest.raises(SelectorError):
        parse_field_selector("a")


def node(name: str = "n", **found: str) -> core_v1.Node:
    return core_v1.Node(metadata=meta_v1.ObjectMeta(name=name, labels=found))


def selector(*terms: object) -> core_v1.NodeSelector:
    return from_dict(core_v1.NodeSelector, {"nodeSelectorTerms": list(terms)})


def requirement(operator: str, *values: str) -> dict[str, object]:
    return {"matchExpressions": [{"key": "zone", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("term", "matches"),
    [
        (requirement("In", "a", "b"), True),
        (requirement("NotIn", "a"), False),
        (requirement("Exists"), True),
        (requirement("DoesNotExist"), False),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}, True),
        ({}, False),
    ],
)
def test_a_node_selector_term_selects_nodes(term: object, matches: bool) -> None:
    assert node_selector_matches(selector(term), node(zone="a")) is matches


def test_one_term_of_a_node_selector_is_enough() -> None:
    assert node_selector_matches(selector(requirement("In", "x"), requirement("In", "a")), node(zone="a"))


@pytest.mark.parametrize("digits", ["9223372036854775808", "9" * 5000])
def test_a_number_beyond_64_bits_is_no_bound(digits: str) -> None:
    with pytest.raises(SelectorError, match="the value must be an integer"):
        parse_label_selector(f"a<{digits}")


def test_a_bound_may_begin_with_many_zeros() -> None:
    assert parse_label_selector(f"a<{'0' * 40}5").matches({"a": "4"})
