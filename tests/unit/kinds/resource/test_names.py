"""Names of drivers, pools, classes and attributes, and opaque parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.resource import DeviceTaint
from cathedra.api.struct import RawJSON, Time
from cathedra.kinds.resource import names
from cathedra.kinds.resource.names import ItemRules, dated_taint, validate_items, validate_taint
from tests.unit.kinds.objects import gates, texts

PATH = FieldPath("x")


def problems(validate: Callable[[ErrorList, FieldPath, str], None], name: str) -> list[str]:
    errors = ErrorList()
    validate(errors, PATH, name)
    return texts(errors)


@pytest.mark.parametrize("name", ["gpu.example.com", "GPU.Example.Com", "a" * 63])
def test_a_driver_has_a_dns_name_in_any_case(name: str) -> None:
    assert problems(names.validate_driver_name, name) == []


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("", "x: Required value"), ("a" * 64, "x: Too long: may not be more than 63 bytes"), ("a_b", "x: Invalid value")],
)
def test_other_drivers_are_refused(name: str, wanted: str) -> None:
    (found,) = problems(names.validate_driver_name, name)
    assert found.startswith(wanted)


def test_a_pool_is_a_path_of_dns_names() -> None:
    assert problems(names.validate_pool_name, "node-1/rack.a/row") == []
    assert len(problems(names.validate_pool_name, "a//b_")) == 2
    assert problems(names.validate_pool_name, "") == ["x: Required value"]


def test_a_class_needs_a_name_of_the_right_form_alone() -> None:
    assert problems(names.validate_class_name, "not-there.example.com") == []
    assert problems(names.validate_class_name, "") == ["x: Required value"]


@pytest.mark.parametrize("name", ["model", "example.com/model", "_x1"])
def test_an_attribute_may_have_a_domain(name: str) -> None:
    assert problems(partial(names.validate_qualified_name, gates=gates()), name) == []


@pytest.mark.parametrize(
    ("name", "release", "wanted"),
    [
        ("/model", "1.37", 'x: Invalid value: "": the domain must not be empty'),
        ("/model", "1.34", "x: Required value: the domain must not be empty"),
        ("example.com/", "1.37", 'x: Invalid value: "": the name must not be empty'),
        ("a/b/c", "1.38", 'x: Invalid value: "a/b/c": must not contain more than one slash'),
        ("a-b", "1.37", 'x: Invalid value: "a-b": a valid C identifier must'),
        ("a" * 33, "1.37", "x: Too long: may not be more than 32 bytes"),
    ],
)
def test_other_attributes_are_refused_in_the_releases_words(name: str, release: str, wanted: str) -> None:
    (found,) = problems(partial(names.validate_qualified_name, gates=gates(release)), name)
    assert found.startswith(wanted)


def test_before_1_37_a_second_slash_was_not_looked_at() -> None:
    assert problems(partial(names.validate_qualified_name, gates=gates("1.36")), "a/b/c") == []


def test_where_a_domain_is_needed_an_identifier_does_not_do() -> None:
    validate = partial(names.validate_fully_qualified_name, gates=gates())
    assert problems(validate, "example.com/model") == []
    (found,) = problems(validate, "model")
    assert found.endswith("a fully qualified name must be a domain and a name separated by a slash")


def opaque(data: bytes | None, *, stored: bool = False, required: bool = True) -> list[str]:
    errors = ErrorList()
    raw = None if data is None else RawJSON(data)
    names.validate_opaque(errors, PATH, raw, stored=stored, required=required)
    return texts(errors)


def test_opaque_parameters_are_an_object() -> None:
    assert opaque(b'{"a":[1]}') == []
    assert opaque(b"[]") == ['x: Invalid value: "<value omitted>": must be a valid JSON object']
    (found,) = opaque(b"{")
    assert found.startswith('x: Invalid value: "<value omitted>": error parsing data as JSON:')


@pytest.mark.parametrize("data", [None, b"null", b" null "])
def test_none_is_missing_only_where_it_is_needed(data: bytes | None) -> None:
    assert opaque(data) == ["x: Required value"]
    assert opaque(data, required=False) == []


def test_large_parameters_are_refused_unless_they_are_stored_already() -> None:
    large = b'{"a":"' + b"x" * 10 * 1024 + b'"}'
    assert opaque(large) == ["x: Too long: may not be more than 10240 bytes"]
    assert opaque(large, stored=True) == []


def found(items: list[str], release: str) -> list[str]:
    """Return the errors of a list of at most two items, none of which may be empty."""
    errors = ErrorList()

    def item(path: FieldPath, value: str) -> None:
        if not value:
            errors.required(path)

    validate_items(errors, FieldPath("l"), items, ItemRules(2, item, key=str), gates(release))
    return texts(errors)


@pytest.mark.parametrize(
    ("release", "wanted"),
    [
        ("1.31", ["l[1]: Required value", "l: Too long: may not be more than 2 bytes", 'l[2]: Duplicate value: "a"']),
        ("1.34", ["l[1]: Required value", "l: Too many: 3: must have at most 2 items", 'l[2]: Duplicate value: "a"']),
        ("1.35", ["l: Too many: 3: must have at most 2 items"]),
    ],
)
def test_items_of_a_list_that_is_too_long_were_looked_at_until_134(release: str, wanted: list[str]) -> None:
    assert found(["a", "", "a"], release) == wanted


@pytest.mark.parametrize("release", ["1.31", "1.34", "1.37"])
def test_a_list_of_the_longest_length_is_looked_at_in_every_release(release: str) -> None:
    assert found(["a", "b"], release) == []
    assert found(["", "a"], release) == ["l[0]: Required value"]


def problems_of_taints(taint: DeviceTaint, release: str = "1.37", old: DeviceTaint | None = None) -> list[str]:
    errors = ErrorList()
    validate_taint(errors, FieldPath("t"), taint, gates(release), old=old)
    return texts(errors)


def test_a_taint_without_a_time_gets_the_present_one_and_keeps_its_own() -> None:
    assert dated_taint(DeviceTaint(key="a"), 5.0).time_added == Time(5.0)
    assert dated_taint(DeviceTaint(key="a", time_added=Time(3.0)), 5.0).time_added == Time(3.0)


@pytest.mark.parametrize("effect", ["NoExecute", "NoSchedule", "None"])
def test_known_effects_are_accepted(effect: str) -> None:
    assert problems_of_taints(DeviceTaint(key="a", effect=effect)) == []


def test_the_effect_none_came_with_1_35() -> None:
    (found,) = problems_of_taints(DeviceTaint(key="a", effect="None"), "1.34")
    assert found.startswith('t.effect: Unsupported value: "None"')


def test_an_effect_is_needed_and_an_unknown_one_refused() -> None:
    assert problems_of_taints(DeviceTaint(key="a")) == ["t.effect: Required value"]
    (found,) = problems_of_taints(DeviceTaint(key="a", effect="Later"))
    assert found.startswith('t.effect: Unsupported value: "Later": supported values:')


def test_an_effect_that_is_stored_already_is_not_judged_again() -> None:
    assert problems_of_taints(DeviceTaint(key="a", effect="Later"), old=DeviceTaint(key="a", effect="Later")) == []


def test_keys_and_values_have_the_form_of_labels() -> None:
    assert len(problems_of_taints(DeviceTaint(key="a b", value="-", effect="NoExecute"))) == 2
