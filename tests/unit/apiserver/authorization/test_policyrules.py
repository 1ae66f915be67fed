"""Permissions of rules, and rules that cover others."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.rbac_v1 import PolicyRule
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import Attributes
from cathedra.apiserver.authorization.policyrules import (
    EVERYTHING,
    TooManyParts,
    allows,
    compact,
    describe,
    uncovered,
)
from tests.costs import costs_less_than
from tests.unit.apiserver.guarded import rule

ALICE = UserInfo("alice")

WORDS = st.sampled_from(("*", "a", "b", "c"))
RULES = st.builds(
    lambda verbs, groups, resources, names: PolicyRule(
        verbs=tuple(verbs), api_groups=tuple(groups), resources=tuple(resources), resource_names=tuple(names)
    ),
    st.lists(WORDS, min_size=1, max_size=2),
    st.lists(WORDS, min_size=1, max_size=2),
    st.lists(st.sampled_from(("*", "a", "b", "a/s", "*/s")), min_size=1, max_size=2),
    st.lists(st.sampled_from(("x", "y")), max_size=2),
)


@pytest.mark.parametrize(
    ("resources", "subresource", "allowed"),
    [
        ("pods", "", True),
        ("pods", "log", False),
        ("pods/log", "log", True),
        ("pods/log", "", False),
        ("*/log", "log", True),
        ("*/log", "", False),
        ("*", "log", True),
        ("services", "", False),
    ],
)
def test_a_resource_does_not_include_its_subresources(resources: str, subresource: str, allowed: bool) -> None:
    asked = Attributes(ALICE, "get", resource="pods", subresource=subresource)
    assert allows(rule("get", resources), asked) is allowed


def test_a_rule_with_names_allows_those_objects_only() -> None:
    named = rule("get", "pods", names="a b")
    assert allows(named, Attributes(ALICE, "get", resource="pods", name="a"))
    assert not allows(named, Attributes(ALICE, "get", resource="pods", name="c"))
    assert not allows(named, Attributes(ALICE, "get", resource="pods"))


@pytest.mark.parametrize(
    ("url", "path", "allowed"),
    [
        ("/metrics", "/metrics", True),
        ("/metrics", "/metrics/slis", False),
        ("/metrics*", "/metrics/slis", True),
        ("/healthz/*", "/healthz", False),
        ("*", "/anything", True),
    ],
)
def test_only_a_final_star_stands_for_more_of_a_path(url: str, path: str, allowed: bool) -> None:
    granted = PolicyRule(verbs=("get",), non_resource_urls=(url,))
    assert allows(granted, Attributes(ALICE, "get", path=path)) is allowed


def test_what_is_not_covered_is_named_verb_by_verb() -> None:
    held = [rule("get", "pods"), rule("list", "pods", names="a")]
    missing = uncovered(held, [rule("get list", "pods secrets")])
    assert [describe(one) for one in compact(missing)] == [
        '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}',
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
    ]


@given(st.lists(RULES, max_size=3))
@settings(max_examples=60, deadline=None)
def test_rules_cover_themselves_and_everything_covers_all(rules: list[PolicyRule]) -> None:
    assert uncovered(rules, rules) == []
    assert uncovered(EVERYTHING, rules) == []


@given(st.lists(RULES, max_size=3), st.lists(RULES, min_size=1, max_size=2))
@settings(max_examples=60, deadline=None)
def test_covered_rules_allow_no_more_than_covering_ones(held: list[PolicyRule], wanted: list[PolicyRule]) -> None:
    if uncovered(held, wanted):
        return
    for verb in "ab":
        for resource, subresource in (("a", ""), ("a", "s"), ("b", "")):
            for name in ("", "x", "y"):
                asked = Attributes(ALICE, verb, "a", "v1", resource, subresource, "", name)
                if any(allows(one, asked) for one in wanted):
                    assert any(allows(one, asked) for one in held)


def test_a_rule_that_stands_for_billions_of_permissions_is_not_taken_apart() -> None:
    """Twelve kilobytes are enough for 700 verbs on 700 resources of 700 groups."""
    many = " ".join(f"n{number}" for number in range(700))
    huge = rule(many, many, many)
    assert uncovered([huge], [huge]) == []
    assert uncovered(EVERYTHING, [huge]) == []
    with costs_less_than(2), pytest.raises(TooManyParts):
        uncovered([rule("get", "pods")], [huge])


def test_thousands_of_rules_are_not_compared_with_thousands() -> None:
    held = [rule("get", f"a{number}") for number in range(5000)]
    wanted = [rule("get", f"b{number}") for number in range(5000)]
    with costs_less_than(2), pytest.raises(TooManyParts):
        uncovered(held, wanted)
