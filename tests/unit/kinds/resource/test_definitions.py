"""The kinds of resource.k8s.io by release."""

from __future__ import annotations

import pytest

from cathedra.kinds.resource.definitions import device_definitions
from tests.unit.kinds.objects import gates

ALWAYS = {"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices", "devicetaintrules"}


@pytest.mark.parametrize(
    ("release", "more"),
    [
        ("1.34", set()),
        ("1.35", set()),
        ("1.36", {"resourcepoolstatusrequests"}),
        ("1.37", {"resourcepoolstatusrequests"}),
    ],
)
def test_a_release_has_its_kinds(release: str, more: set[str]) -> None:
    found = device_definitions(gates(release))
    assert {definition.plural for definition in found} == ALWAYS | more
    assert {definition.group for definition in found} == {"resource.k8s.io"}


def test_only_claims_and_their_templates_live_in_namespaces() -> None:
    namespaced = {definition.plural for definition in device_definitions(gates()) if definition.namespaced}
    assert namespaced == {"resourceclaims", "resourceclaimtemplates"}
