"""Permissions on parts of a claim's status (docs/spec/api.md §B.1; KEP-4817)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from cathedra.api.field import ErrorList
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import replace
from cathedra.kinds.resource.claims.access import validate_status_access
from tests.unit.kinds.objects import claim, context

ALLOCATION = {
    "devices": {"results": [{"request": "r", "driver": "a.example.com", "pool": "p", "device": "d"}]},
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    },
}


@dataclass
class Access:
    """Grants what is listed, and notes every question."""

    granted: frozenset[tuple[str, str]] = frozenset()
    verb: str = "update"
    node: str = ""
    asked: list[tuple[str, str, str, str]] = field(default_factory=list)

    def refusal(self, subresource: str, verb: str, *, namespace: str = "", name: str = "") -> str:
        self.asked.append((subresource, verb, namespace, name))
        return "" if (subresource, verb) in self.granted else f"no {verb} of {subresource}"


def report(driver: str, **more: Any) -> dict[str, Any]:
    return {"driver": driver, "pool": "p", "device": "d", **more}


def with_status(status: Mapping[str, Any]) -> ResourceClaim:
    return claim(status=status)


def refusals(new: ResourceClaim, old: ResourceClaim, access: Access | None, **gates: bool) -> list[str]:
    errors = ErrorList()
    opened = context("1.37", **{"DRAResourceClaimGranularStatusAuthorization": True, **gates})
    validate_status_access(errors, new, old, replace(opened, access=access))
    return [str(error) for error in errors]


def test_allocating_needs_the_binding_permission() -> None:
    new, old = with_status({"allocation": ALLOCATION}), with_status({})
    assert refusals(new, old, Access(frozenset({("binding", "update")}))) == []
    (text,) = refusals(new, old, Access())
    assert text.startswith("status.allocation: Forbidden: changing status.allocation or status.reservedFor requires")
    assert 'resource="resourceclaims/binding", verb="update" permission: no update of binding' in text


def test_each_driver_whose_report_changes_is_a_permission_of_its_own() -> None:
    old = with_status({"allocation": ALLOCATION, "devices": [report("a"), report("b"), report("c")]})
    changed = [report("b", data={"x": 1}), report("a"), report("d")]
    access = Access(frozenset({("driver", "arbitrary-node:update")}))
    assert refusals(with_status({"allocation": ALLOCATION, "devices": changed}), old, access) == []
    assert [name for _, _, _, name in access.asked] == ["b", "c", "d"]
    assert {namespace for _, _, namespace, _ in access.asked} == {"default"}


@pytest.mark.parametrize(
    ("node", "verbs"), [("n1", ["associated-node:update", "arbitrary-node:update"]), ("n2", ["arbitrary-node:update"])]
)
def test_a_token_of_the_allocations_node_may_have_the_smaller_permission(node: str, verbs: list[str]) -> None:
    old = with_status({"allocation": ALLOCATION})
    new = with_status({"allocation": ALLOCATION, "devices": [report("a")]})
    access = Access(node=node)
    (text,) = refusals(new, old, access)
    assert f'verb="[{" ".join(verbs)}]" permission: no {verbs[0]} of driver' in text
    assert [verb for _, verb, _, _ in access.asked] == verbs


def test_without_gate_or_authorizer_nothing_is_checked() -> None:
    new, old = with_status({"allocation": ALLOCATION}), with_status({})
    access = Access()
    assert refusals(new, old, access, DRAResourceClaimGranularStatusAuthorization=False) == []
    assert refusals(new, old, None) == []
    assert access.asked == []
