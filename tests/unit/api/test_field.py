"""Field errors and their paths."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api import resource
from cathedra.api.core import core_v1
from cathedra.api.field import MAX_TEXT, Constant, ErrorList, FieldPath, Names, go_form, go_json
from tests.requirements import with_memos


def test_a_path_grows_by_names_indexes_and_keys() -> None:
    path = FieldPath("spec").child("devices", "requests").index(0).child("capacity").key("example.com/x")
    assert path == "spec.devices.requests[0].capacity[example.com/x]"


def test_every_kind_of_error_has_its_words() -> None:
    errors = ErrorList()
    errors.required("a")
    errors.required("a", "why")
    errors.invalid("b", 1, "must be greater than zero")
    errors.invalid("b", None, "field is immutable")
    errors.not_supported("c", "x", ("b", "a"))
    errors.not_supported("c", "<&>\x7f", ("b", "a"))
    errors.string_not_among("c", "<&>\x7f", ("b", "a"))
    errors.duplicate("d", "x")
    errors.not_found("e", "x")
    errors.forbidden("f", "no")
    errors.too_long("g", 3)
    errors.too_many("h", 4, 3)
    errors.internal("i", "broken")
    assert [str(error) for error in errors] == [
        "a: Required value",
        "a: Required value: why",
        "b: Invalid value: 1: must be greater than zero",
        "b: Invalid value: null: field is immutable",
        'c: Unsupported value: "x": supported values: "a", "b"',
        'c: Unsupported value: "\\u003c\\u0026\\u003e\x7f": supported values: "a", "b"',
        'c: Unsupported value: "<&>\\x7f": supported values: "b", "a"',
        'd: Duplicate value: "x"',
        'e: Not found: "x"',
        "f: Forbidden: no",
        "g: Too long: may not be more than 3 bytes",
        "h: Too many: 4: must have at most 3 items",
        "i: Internal error: broken",
    ]


def test_a_message_lists_a_hundred_names_and_counts_the_rest() -> None:
    errors = ErrorList()
    known = [f"n{number:04}" for number in range(1000)]
    errors.not_supported("a", "x", known[::-1])
    errors.not_among("b", "x", known[::-1])
    for error, first, last in zip(errors, ("n0000", "n0999"), ("n0099", "n0900"), strict=True):
        assert error.message.startswith(f'Unsupported value: "x": supported values: "{first}", ')
        assert error.message.endswith(f', "{last}", and 900 more')


def test_many_errors_share_one_list_of_names() -> None:
    errors = ErrorList()
    names = Names("must be one of", frozenset(map(str, range(10_000))), quoted=False, in_order=False)
    for _ in range(10_000):
        errors.not_found("a", "x", names)
    assert {id(error.names) for error in errors} == {id(names)}


@pytest.mark.parametrize("value", ["x" * 3_000_000, Constant("<" * 3_000_000), ["x"] * 1_000_000])
def test_a_message_is_cut(value: object) -> None:
    errors = ErrorList()
    errors.invalid("a", value, "no")
    assert len(errors[0].message) < MAX_TEXT + 20


@with_memos
def test_paths_below_a_long_key_are_not_kept() -> None:
    long = FieldPath("a").key("k" * 100_000)
    before = FieldPath.child.cache_info(), FieldPath.index.cache_info()
    assert long.child("b", "c").index(1).child("d") == f"a[{'k' * 100_000}].b.c[1].d"
    assert (FieldPath.child.cache_info(), FieldPath.index.cache_info()) == before


# Values as Kubernetes' messages show them.


def test_structs_show_every_field_in_upper_camel_case() -> None:
    claim = core_v1.PodResourceClaim(name="a")
    assert go_form(claim) == '{"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":null}'


def test_attributes_have_names_of_their_own() -> None:
    assert '"IntValue":1' in go_form(resource.DeviceAttribute(int_=1))


def test_texts_are_fit_for_html_as_go_writes_them() -> None:
    assert go_json("a<b && c>d") == r'"a\u003cb \u0026\u0026 c\u003ed"'
    assert go_json(["\u2028", "\u2029", "é"]) == r'["\u2028","\u2029","é"]'


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_values_are_read_back_as_they_were(value: object) -> None:
    assert json.loads(go_json(value)) == value
    assert json.loads(go_json(value, indent=1)) == value


@pytest.mark.parametrize("indent", [1, 2, 4])
def test_an_indented_text_is_that_of_the_standard_encoder(indent: int) -> None:
    value: Any = {"a": {}, "b": [], "c": [[], {}, [1, [2.5, {"h": True}]]], 'd"ü': "x\n\\\x7f", "e": None}
    assert go_json(value, indent=indent) == json.dumps(value, ensure_ascii=False, indent=indent)
