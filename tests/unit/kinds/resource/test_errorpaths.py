"""Where older releases report an error (docs/spec/api.md §3.1, appendix D)."""

from __future__ import annotations

import pytest

from cathedra.api.field import ErrorList
from cathedra.kinds.resource.claims.validation import validate_claim
from cathedra.kinds.resource.errorpaths import paths_of_release
from cathedra.kinds.resource.slices.validation import validate_slice
from tests.unit.kinds.objects import claim, context, device, exactly, gates, resource_slice

WHOLE = exactly(allocationMode="ExactCount", count=1)


def paths(errors: ErrorList, release: str) -> list[str]:
    return [error.field for error in paths_of_release(errors, gates(release))]


@pytest.mark.parametrize(
    ("release", "wanted"),
    [("1.35", "spec.devices.requests[1]"), ("1.34", "spec.devices.requests[1].name")],
)
def test_a_repeated_request_is_reported_at_its_name_until_134(release: str, wanted: str) -> None:
    errors = validate_claim(claim(WHOLE, WHOLE), context(release))
    assert paths(errors, release) == [wanted]


def test_repeated_references_keep_their_place() -> None:
    constraint = {"requests": ["r", "r"], "matchAttribute": "a.b/c"}
    errors = validate_claim(claim(WHOLE, constraints=[constraint]), context("1.34"))
    assert paths(errors, "1.34") == ["spec.devices.constraints[0].requests[1]"]


@pytest.mark.parametrize(
    ("release", "wanted"),
    [
        ("1.33", "spec.devices.requests[0].exactly.deviceClassName"),
        ("1.32", "spec.devices.requests[0].deviceClassName"),
    ],
)
def test_requests_are_flat_in_132(release: str, wanted: str) -> None:
    errors = validate_claim(claim({"name": "r", "exactly": {"allocationMode": "All"}}), context(release))
    assert paths(errors, release) == [wanted]


def test_an_empty_request_lacks_its_class_in_132() -> None:
    errors = validate_claim(claim({"name": "r"}), context("1.32"))
    (error,) = paths_of_release(errors, gates("1.32"))
    assert str(error) == "spec.devices.requests[0].deviceClassName: Required value"


@pytest.mark.parametrize(
    ("release", "wanted"),
    [
        ("1.36", ["spec.devices[0].attributes", "spec.devices[1]"]),
        ("1.34", ["spec.devices[0].attributes[a-b]", "spec.devices[1].name"]),
        ("1.32", ["spec.devices[0].basic.attributes[a-b]", "spec.devices[1].name"]),
    ],
)
def test_properties_of_devices_are_in_basic_in_132(release: str, wanted: list[str]) -> None:
    piece = resource_slice(device(attributes={"a-b": {"string": "x"}}), device())
    assert paths(validate_slice(piece, None, context(release)), release) == wanted
