"""Claims and templates as they are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_type_hints

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cathedra.api import resource
from cathedra.api.core import core_v1
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.field import ErrorList
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import KubeStruct, Quantity, RawJSON, Time, from_dict, replace
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.resource.claims import strategy
from cathedra.kinds.resource.claims.strategy import EXCLUDED, allocation_key, validate_status_access
from cathedra.remembering import IS_ON, forget, statistics
from tests.requirements import with_memos
from tests.unit.kinds.objects import claim, context, created, definition_of, exactly, row, texts, updated
from tests.unit.kinds.structs import values_of, variants_of

STRATEGY = definition_of("resourceclaims").strategy
STATUS = definition_of("resourceclaims").subresources["status"]
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "p", "device": "d"}
ALLOCATED = {"allocation": {"devices": {"results": [RESULT]}}}


def test_a_claim_is_created_without_status_and_without_a_generation() -> None:
    made, errors = created(STRATEGY, claim(status=ALLOCATED), context())
    assert errors == []
    assert (made.status, made.metadata.generation) == (resource.ResourceClaimStatus(), 0)


def test_the_main_resource_keeps_the_status() -> None:
    old, _ = created(STRATEGY, claim(), context())
    old = replace(old, status=from_dict(resource.ResourceClaimStatus, ALLOCATED))
    new = replace(old, metadata=replace(old.metadata, labels={"a": "b"}), status=resource.ResourceClaimStatus())
    made, errors = updated(STRATEGY, new, old, context())
    assert errors == []
    assert (made.status, made.metadata.labels) == (old.status, {"a": "b"})


def test_the_status_keeps_spec_and_metadata() -> None:
    old, _ = created(STRATEGY, claim(), context())
    changed = claim(exactly("other"), status=ALLOCATED)
    new = replace(changed, metadata=replace(changed.metadata, labels={"a": "b"}, finalizers=("x/y",)))
    made, errors = updated(STATUS, new, old, context())
    assert errors == []
    assert (made.spec, made.metadata.labels, made.metadata.finalizers) == (old.spec, {}, ())
    assert made.status == new.status


@pytest.mark.parametrize("rules", [STRATEGY, STATUS])
def test_only_parts_of_a_change_that_are_not_stored_get_defaults(rules: Any) -> None:
    old, _ = created(STRATEGY, claim(), context())
    assert rules.default_change(old, old, context()) is old
    tolerating = {**RESULT, "tolerations": [{"key": "k"}]}
    status = from_dict(resource.ResourceClaimStatus, {"allocation": {"devices": {"results": [tolerating]}}})
    for sent in (replace(old, status=status), replace(claim(), status=status), claim()):
        assert rules.default_change(sent, old, context()) == rules.default(sent, context()) != sent


def test_closed_gates_take_fields_out_of_all_three() -> None:
    closed = context("1.36", DRAConsumableCapacity=False)
    asked = claim(exactly(capacity={"requests": {"m": "1"}}))
    definition = definition_of("resourceclaims", "1.36")
    assert created(definition.strategy, asked, closed)[0] == created(definition.strategy, claim(), closed)[0]
    template = resource.ResourceClaimTemplate(spec=resource.ResourceClaimTemplateSpec(spec=asked.spec))
    made, _ = created(definition_of("resourceclaimtemplates", "1.36").strategy, template, closed)
    assert made.spec.spec == created(definition.strategy, claim(), closed)[0].spec
    old, _ = created(definition.strategy, claim(), closed)
    shared = {**RESULT, "shareID": "6f1c4f3e-8f5f-4b8e-9d0a-0d3b2a1c4e5f", "consumedCapacity": {"m": "1"}}
    status = from_dict(resource.ResourceClaimStatus, {"allocation": {"devices": {"results": [shared]}}})
    told, errors = updated(definition.subresources["status"], replace(old, status=status), old, closed)
    assert errors == []
    assert told.status == from_dict(resource.ResourceClaimStatus, ALLOCATED)


def test_a_template_never_changes_and_keeps_what_it_uses() -> None:
    definition = definition_of("resourceclaimtemplates", "1.36")
    spec = claim(exactly(capacity={"requests": {"m": "1"}})).spec
    template = resource.ResourceClaimTemplate(spec=resource.ResourceClaimTemplateSpec(spec=spec))
    old, _ = created(definition.strategy, template, context("1.36"))
    closed = context("1.36", DRAConsumableCapacity=False)
    assert updated(definition.strategy, old, old, closed) == (old, [])
    other = replace(old, spec=replace(old.spec, spec=claim(exactly("other")).spec))
    (error,) = updated(definition.strategy, other, old, context("1.36"))[1]
    assert error.detail == "field is immutable"


def test_claims_and_templates_are_namespaced_and_only_claims_have_a_status() -> None:
    kinds = [definition_of("resourceclaims"), definition_of("resourceclaimtemplates")]
    assert [(kind.namespaced, set(kind.subresources)) for kind in kinds] == [(True, {"status"}), (True, set())]


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
    opened = context("1.37", **{"DRAResourceClaimGranularStatusAuthorization": True, **gates})
    return texts(validate_status_access(new, old, replace(opened, access=access)))


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


DEFINITION = definition_of("resourceclaims", "1.37")
STATUS_ALLOCATIONS = DEFINITION.subresources["status"]
WARM = context("1.37")
CLAIM, _ = created(DEFINITION.strategy, claim(exactly("a"), exactly("b")), WARM)
RESULT_ALLOCATIONS = {"request": "a", "driver": "gpu.example.com", "pool": "a", "device": "a"}
NODE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}
SOUND = from_dict(
    resource.ResourceClaimStatus,
    {
        "allocation": {"devices": {"results": [RESULT_ALLOCATIONS]}, "nodeSelector": NODE},
        "reservedFor": [{"resource": "pods", "name": "a", "uid": "1"}],
    },
)
ALLOCATED_ALLOCATIONS = replace(CLAIM, status=SOUND)


def found(new: resource.ResourceClaim, old: resource.ResourceClaim = CLAIM, *, is_new: bool = False) -> list[str]:
    if is_new:
        return texts(DEFINITION.strategy.validate_create(new, WARM))
    return texts(STATUS_ALLOCATIONS.validate_update(new, old, WARM))


def found_cold(new: resource.ResourceClaim, old: resource.ResourceClaim = CLAIM, *, is_new: bool = False) -> list[str]:
    forget()
    return found(new, old, is_new=is_new)


def check_alike(
    claims: list[resource.ResourceClaim], old: resource.ResourceClaim = CLAIM, *, is_new: bool = False
) -> None:
    """Compare the errors of claims without memos, with empty memos and with filled ones."""
    cold = [found_cold(new, old, is_new=is_new) for new in claims]
    forget()
    for _ in range(2):
        assert [found(new, old, is_new=is_new) for new in claims] == cold


@given(st.lists(variants_of(SOUND), min_size=1, max_size=4), st.sampled_from((CLAIM, ALLOCATED_ALLOCATIONS)))
def test_a_status_is_validated_alike_whatever_was_validated_before(
    statuses: list[resource.ResourceClaimStatus], old: resource.ResourceClaim
) -> None:
    check_alike([ALLOCATED_ALLOCATIONS, *[replace(old, status=status) for status in statuses]], old)


@given(st.lists(variants_of(SOUND), min_size=1, max_size=4))
def test_a_claim_that_is_freed_is_validated_alike_whatever_was_freed_before(
    statuses: list[resource.ResourceClaimStatus],
) -> None:
    given_ = [ALLOCATED_ALLOCATIONS, *[replace(CLAIM, status=status) for status in statuses]]
    cold = [found_cold(CLAIM, old) for old in given_]
    forget()
    assert [found(CLAIM, old) for old in given_] == cold
    assert [found(CLAIM, old) for old in given_] == cold


@given(variants_of(SOUND), st.booleans())
def test_a_rule_for_freed_claims_judges_alike_whatever_was_freed_before(
    former: resource.ResourceClaimStatus, of_spec: bool
) -> None:
    other = replace(CLAIM, spec=replace(CLAIM.spec), status=former)
    freed = replace(other, status=CLAIM.status)
    validate = strategy.validate_status_update

    def stricter(new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext) -> ErrorList:
        errors = validate(new, old, context)
        if (new.spec is other.spec) if of_spec else (old.status == former):
            errors.forbidden("status", "refused by the added rule")
        return errors

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategy, "validate_status_update", stricter)
        cold = [found_cold(CLAIM, ALLOCATED_ALLOCATIONS), found_cold(freed, other)]
        forget()
        assert [found(CLAIM, ALLOCATED_ALLOCATIONS), found(freed, other)] == cold
        forget()
        assert [found(freed, other), found(CLAIM, ALLOCATED_ALLOCATIONS)] == cold[::-1]


@with_memos
def test_the_rules_run_once_for_claims_that_are_freed_alike() -> None:
    forget()
    before = statistics()["sound allocations"]
    other = replace(ALLOCATED_ALLOCATIONS, spec=replace(CLAIM.spec))
    assert found(CLAIM, ALLOCATED_ALLOCATIONS) == found(replace(other, status=CLAIM.status), other) == []
    assert statistics()["sound allocations"] == before + 1


@given(st.lists(variants_of(CLAIM.spec), min_size=1, max_size=4))
def test_a_new_claim_is_validated_alike_whatever_was_validated_before(specs: list[resource.ResourceClaimSpec]) -> None:
    check_alike([replace(CLAIM, spec=spec) for spec in specs], is_new=True)


PATHS: tuple[tuple[str, ...], ...] = (
    (),
    ("allocation",),
    ("allocation", "devices"),
    ("allocation", "devices", "results"),
    ("reserved_for",),
)
"""Return the paths of the structs in a status; of a list the first element."""


def at(struct: Any, path: tuple[str, ...]) -> KubeStruct:
    for name in path:
        value = getattr(struct, name)
        struct = value[0] if isinstance(value, tuple) else value
    return struct


def with_field(struct: Any, path: tuple[str, ...], field: str, value: Any) -> Any:
    if not path:
        return replace(struct, **{field: value})
    below = getattr(struct, path[0])
    changed = with_field(below[0] if isinstance(below, tuple) else below, path[1:], field, value)
    return replace(struct, **{path[0]: (changed,) if isinstance(below, tuple) else changed})


def fields_in_key(path: tuple[str, ...]) -> list[str]:
    """The fields of a struct of which a key has all, in themselves or in theirs."""
    struct = at(SOUND, path)
    below = ("allocation", "devices", "results", "reserved_for")
    return [name for name in struct.__struct_fields__ if name in below or name not in EXCLUDED[type(struct)]]


@pytest.mark.parametrize(("path", "field"), [(path, field) for path in PATHS for field in fields_in_key(path)])
@given(st.data())
def test_a_rule_that_is_added_for_any_field_of_a_status_is_heeded_after_a_sound_one(
    path: tuple[str, ...], field: str, data: st.DataObject
) -> None:
    value = data.draw(values_of(get_type_hints(type(at(SOUND, path)), include_extras=True)[field]))
    assume(value != getattr(at(SOUND, path), field))
    changed = with_field(SOUND, path, field, value)
    validate = strategy.validate_status_update

    def stricter(new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext) -> ErrorList:
        errors = validate(new, old, context)
        if new.status == changed:
            errors.forbidden("status", "refused by the added rule")
        return errors

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategy, "validate_status_update", stricter)
        assert found(ALLOCATED_ALLOCATIONS) == []
        assert "status: Forbidden: refused by the added rule" in found(replace(CLAIM, status=changed))


def test_two_kinds_of_consumed_capacity_can_be_refused_after_a_sound_allocation() -> None:
    validate = strategy.validate_status_update

    def stricter(new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext) -> ErrorList:
        errors = validate(new, old, context)
        allocation = new.status.allocation
        if allocation is not None and any(len(one.consumed_capacity) > 1 for one in allocation.devices.results):
            errors.forbidden("status", "too much")
        return errors

    both = {"memory": Quantity("1"), "bandwidth": Quantity("2")}
    refused = with_field(SOUND, ("allocation", "devices", "results"), "consumed_capacity", both)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategy, "validate_status_update", stricter)
        assert found(ALLOCATED_ALLOCATIONS) == []
        assert found(replace(CLAIM, status=refused)) == ["status: Forbidden: too much"]


@pytest.mark.parametrize("field", [name for name in ObjectMeta.__struct_fields__ if name != "managed_fields"])
@given(st.data())
def test_a_rule_that_reads_metadata_judges_alike_whatever_was_validated_before(field: str, data: st.DataObject) -> None:
    value = data.draw(values_of(get_type_hints(ObjectMeta, include_extras=True)[field]))
    other = replace(ALLOCATED_ALLOCATIONS, metadata=replace(CLAIM.metadata, **{field: value}))
    validate = strategy.validate_status_update

    def stricter(new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext) -> ErrorList:
        errors = validate(new, old, context)
        if getattr(new.metadata, field) == value:
            errors.forbidden("status", "refused by the added rule")
        return errors

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategy, "validate_status_update", stricter)
        check_alike([ALLOCATED_ALLOCATIONS, other])
        check_alike([other, ALLOCATED_ALLOCATIONS])


def test_a_reservation_is_refused_while_the_claim_is_deleted() -> None:
    deleted = replace(ALLOCATED_ALLOCATIONS, metadata=replace(CLAIM.metadata, deletion_timestamp=Time(1.0)))
    assert found(ALLOCATED_ALLOCATIONS) == []
    (error,) = found(deleted)
    assert "new entries may not be added while" in error


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        (("allocation", "devices", "results"), "pool", "a//b"),
        (("allocation", "devices", "results"), "device", "A"),
        (("allocation",), "node_selector", core_v1.NodeSelector()),
        (("reserved_for",), "name", ""),
        (("reserved_for",), "uid", ""),
    ],
)
def test_what_differs_from_claim_to_claim_is_validated_after_a_sound_status(
    path: tuple[str, ...], field: str, value: Any
) -> None:
    assert found(ALLOCATED_ALLOCATIONS) == []
    assert found(replace(CLAIM, status=with_field(SOUND, path, field, value))) != []


_ANY_NODE = core_v1.NodeSelectorRequirement(key="zone", operator="Exists")
_ZONED = core_v1.NodeSelector(node_selector_terms=(core_v1.NodeSelectorTerm(match_expressions=(_ANY_NODE,)),))


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        (("allocation", "devices", "results"), "pool", "rack/node"),
        (("allocation",), "node_selector", _ZONED),
    ],
)
def test_what_has_a_valid_but_unusual_form_is_validated_in_full(path: tuple[str, ...], field: str, value: Any) -> None:
    unusual = replace(CLAIM, status=with_field(SOUND, path, field, value))
    assert found(unusual) == []
    assert allocation_key(unusual, CLAIM, WARM) is None


def test_allocations_of_one_request_have_one_key() -> None:
    other = with_field(SOUND, ("allocation", "devices", "results"), "device", "b")
    other = with_field(with_field(other, ("reserved_for",), "uid", "2"), ("allocation",), "node_selector", None)
    key = allocation_key(ALLOCATED_ALLOCATIONS, CLAIM, WARM)
    assert key is not None
    if IS_ON:
        assert key == allocation_key(replace(CLAIM, status=other), CLAIM, WARM)


def configured(parameters: object) -> resource.ResourceClaim:
    opaque = resource.OpaqueDeviceConfiguration("gpu.example.com", RawJSON.of(parameters))
    configuration = resource.DeviceAllocationConfiguration("FromClaim", opaque=opaque)
    return replace(CLAIM, status=with_field(SOUND, ("allocation", "devices"), "config", (configuration,)))


def test_the_key_of_an_allocation_has_its_configuration_unless_that_is_long() -> None:
    key = allocation_key(configured({"sharing": "TimeSlicing"}), CLAIM, WARM)
    assert key is not None
    assert key != allocation_key(configured({"sharing": "MPS"}), CLAIM, WARM)
    if IS_ON:
        assert key == allocation_key(configured({"sharing": "TimeSlicing"}), CLAIM, WARM)
    assert allocation_key(configured({"sharing": "x" * 512}), CLAIM, WARM) is None


@pytest.mark.parametrize("field", sorted(set(RequestContext.__struct_fields__) - set(EXCLUDED[RequestContext])))
def test_a_key_has_what_rules_may_know_of_a_request(field: str) -> None:
    other = msgspec.structs.replace(WARM, **{field: "other"})
    assert allocation_key(ALLOCATED_ALLOCATIONS, CLAIM, WARM) != allocation_key(ALLOCATED_ALLOCATIONS, CLAIM, other)


def test_a_claim_that_is_freed_has_another_key_than_one_that_is_allocated() -> None:
    freed = allocation_key(CLAIM, ALLOCATED_ALLOCATIONS, WARM)
    assert freed is not None
    assert freed != allocation_key(ALLOCATED_ALLOCATIONS, CLAIM, WARM)


def many(number: int) -> resource.ResourceClaim:
    assert SOUND.allocation is not None
    results = SOUND.allocation.devices.results * number
    return replace(CLAIM, status=with_field(SOUND, ("allocation", "devices"), "results", results))


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (many(9), CLAIM),
        (ALLOCATED_ALLOCATIONS, ALLOCATED_ALLOCATIONS),
        (replace(ALLOCATED_ALLOCATIONS, spec=replace(CLAIM.spec)), CLAIM),
        (replace(ALLOCATED_ALLOCATIONS, metadata=replace(CLAIM.metadata, deletion_timestamp=Time(1.0))), CLAIM),
    ],
)
def test_other_changes_have_no_key(new: resource.ResourceClaim, old: resource.ResourceClaim) -> None:
    assert allocation_key(new, old, WARM) is None


def test_a_claim_says_whether_it_is_allocated_and_reserved() -> None:
    assert row("resourceclaims", claim())["State"] == "pending"
    allocation = {"devices": {"results": []}}
    assert row("resourceclaims", claim(status={"allocation": allocation}))["State"] == "allocated"
    reserved = {"allocation": allocation, "reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}
    assert row("resourceclaims", claim(status=reserved))["State"] == "allocated,reserved"
