"""Device classes."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api import resource
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.metadata import validate_new_metadata
from cathedra.kinds.resource.classes import class_from_hub, class_to_hub
from tests.unit.kinds.objects import context, created, definition_of, texts, updated

OPAQUE = {"opaque": {"driver": "gpu.example.com", "parameters": {"a": 1}}}


def device_class(**spec: Any) -> resource.DeviceClass:
    return from_dict(resource.DeviceClass, {"metadata": {"name": "c"}, "spec": spec})


def problems(**spec: Any) -> list[str]:
    return texts(created(definition_of("deviceclasses").strategy, device_class(**spec), context())[1])


def test_a_class_selects_configures_and_names_an_extended_resource() -> None:
    selectors = [{"cel": {"expression": "true"}}]
    assert problems() == problems(selectors=selectors, config=[OPAQUE], extendedResourceName="example.com/gpu") == []


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"selectors": [{}]}, "spec.selectors[0].cel: Required value"),
        (
            {"selectors": [{"cel": {"expression": "true"}}] * 33},
            "spec.selectors: Too many: 33: must have at most 32 items",
        ),
        ({"config": [{}]}, "spec.config[0].opaque: Required value"),
        ({"config": [OPAQUE] * 33}, "spec.config: Too many: 33: must have at most 32 items"),
        (
            {"extendedResourceName": "cpu"},
            'spec.extendedResourceName: Invalid value: "cpu": a name must be a domain-prefixed path, such as '
            "'example.com/my-prop'",
        ),
        (
            {"extendedResourceName": "kubernetes.io/x"},
            'spec.extendedResourceName: Invalid value: "kubernetes.io/x": must not have "kubernetes.io/" domain',
        ),
    ],
)
def test_a_class_is_checked(spec: dict[str, Any], wanted: str) -> None:
    assert problems(**spec) == [wanted]


def test_until_136_the_name_of_an_extended_resource_is_good_or_bad() -> None:
    strategy = definition_of("deviceclasses", "1.36").strategy
    assert texts(created(strategy, device_class(extendedResourceName="cpu"), context("1.36"))[1]) == [
        'spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name'
    ]


def test_a_class_changes_freely_and_counts_how_often() -> None:
    strategy = definition_of("deviceclasses").strategy
    old, _ = created(strategy, device_class(), context())
    assert old.metadata.generation == 1
    new, errors = updated(strategy, device_class(selectors=[{"cel": {"expression": "true"}}]), old, context())
    assert (errors, new.metadata.generation) == ([], 2)
    labelled = replace(new, metadata=replace(new.metadata, labels={"a": "b"}))
    assert updated(strategy, labelled, new, context())[0].metadata.generation == 2


def test_parameters_that_are_stored_may_be_longer_than_new_ones() -> None:
    """The limit grew smaller once; classes that exist must stay writable."""
    strategy = definition_of("deviceclasses").strategy
    long = device_class(config=[{"opaque": {"driver": "d", "parameters": {"a": "x" * 10300}}}])
    assert len(created(strategy, long, context())[1]) == 1
    assert updated(strategy, long, long, context())[1] == []


def test_the_name_of_an_extended_resource_goes_with_its_gate() -> None:
    strategy = definition_of("deviceclasses", "1.36").strategy
    named, closed = device_class(extendedResourceName="example.com/gpu"), context("1.36", DRAExtendedResource=False)
    assert created(strategy, named, closed)[0].spec == resource.DeviceClassSpec()
    assert updated(strategy, named, named, closed)[0].spec == named.spec
    assert updated(strategy, named, device_class(), closed)[0].spec == resource.DeviceClassSpec()


def test_a_class_is_the_same_in_the_beta_version() -> None:
    made = device_class(selectors=[{"cel": {"expression": "true"}}], config=[OPAQUE], extendedResourceName="a.b/c")
    assert class_to_hub(class_from_hub(made)) == made


def test_the_name_of_a_class_is_measured_in_bytes() -> None:
    rule = definition_of("deviceclasses", "1.36").name_rule
    assert list(rule("a.b")) == []
    assert any("253 bytes" in problem for problem in rule("a" * 254))


def test_from_137_on_the_name_of_a_class_is_reported_last_and_once() -> None:
    definition, made = definition_of("deviceclasses"), device_class(config=[{}])
    named = replace(made, metadata=replace(made.metadata, name="a" * 254))
    found = validate_new_metadata(definition, named.metadata, context().gates)
    found.extend(created(definition.strategy, named, context())[1])
    assert texts(found) == [
        "spec.config[0].opaque: Required value",
        f'metadata.name: Invalid value: "{"a" * 254}": must be no more than 253 bytes',
    ]
