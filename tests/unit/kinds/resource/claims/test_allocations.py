"""The rules of claims find the same, whatever they found before: every field that they read is in the keys of memos."""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cathedra.api import resource
from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList
from cathedra.api.struct import KubeStruct, Quantity, Time, from_dict, replace
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.resource.claims import strategy
from cathedra.kinds.resource.claims.allocations import EXCLUDED, allocation_key
from cathedra.remembering import IS_ON, forget
from tests.unit.kinds.objects import claim, context, created, definition_of, exactly, texts
from tests.unit.kinds.structs import values_of, variants_of

DEFINITION = definition_of("resourceclaims", "1.37")
STATUS = DEFINITION.subresources["status"]
WARM = context("1.37")
CLAIM, _ = created(DEFINITION.strategy, claim(exactly("a"), exactly("b")), WARM)
RESULT = {"request": "a", "driver": "gpu.example.com", "pool": "a", "device": "a"}
NODE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}
SOUND = from_dict(
    resource.ResourceClaimStatus,
    {
        "allocation": {"devices": {"results": [RESULT]}, "nodeSelector": NODE},
        "reservedFor": [{"resource": "pods", "name": "a", "uid": "1"}],
    },
)
ALLOCATED = replace(CLAIM, status=SOUND)


def found(new: resource.ResourceClaim, old: resource.ResourceClaim = CLAIM, *, is_new: bool = False) -> list[str]:
    if is_new:
        return texts(DEFINITION.strategy.validate_create(new, WARM))
    return texts(STATUS.validate_update(new, old, WARM))


def found_cold(new: resource.ResourceClaim, old: resource.ResourceClaim = CLAIM, *, is_new: bool = False) -> list[str]:
    forget()
    return found(new, old, is_new=is_new)


@given(st.lists(variants_of(SOUND), min_size=1, max_size=4), st.sampled_from((CLAIM, ALLOCATED)))
def test_a_status_is_validated_alike_whatever_was_validated_before(
    statuses: list[resource.ResourceClaimStatus], old: resource.ResourceClaim
) -> None:
    given_ = [ALLOCATED, *[replace(old, status=status) for status in statuses]]
    cold = [found_cold(new, old) for new in given_]
    forget()
    assert [found(new, old) for new in given_] == cold
    assert [found(new, old) for new in given_] == cold


@given(st.lists(variants_of(CLAIM.spec), min_size=1, max_size=4))
def test_a_new_claim_is_validated_alike_whatever_was_validated_before(specs: list[resource.ResourceClaimSpec]) -> None:
    given_ = [replace(CLAIM, spec=spec) for spec in specs]
    cold = [found_cold(new, is_new=True) for new in given_]
    forget()
    assert [found(new, is_new=True) for new in given_] == cold
    assert [found(new, is_new=True) for new in given_] == cold


PATHS: tuple[tuple[str, ...], ...] = (
    (),
    ("allocation",),
    ("allocation", "devices"),
    ("allocation", "devices", "results"),
    ("reserved_for",),
)
"""Where the structs of a status are; of a list the first element."""


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
        assert found(ALLOCATED) == []
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
        assert found(ALLOCATED) == []
        assert found(replace(CLAIM, status=refused)) == ["status: Forbidden: too much"]


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
    assert found(ALLOCATED) == []
    assert found(replace(CLAIM, status=with_field(SOUND, path, field, value))) != []


def test_allocations_of_one_request_have_one_key() -> None:
    other = with_field(SOUND, ("allocation", "devices", "results"), "device", "b")
    other = with_field(with_field(other, ("reserved_for",), "uid", "2"), ("allocation",), "node_selector", None)
    key = allocation_key(ALLOCATED, CLAIM, WARM)
    assert key is not None
    if IS_ON:
        assert key == allocation_key(replace(CLAIM, status=other), CLAIM, WARM)


@pytest.mark.parametrize("field", sorted(set(RequestContext.__struct_fields__) - set(EXCLUDED[RequestContext])))
def test_a_key_has_what_rules_may_know_of_a_request(field: str) -> None:
    other = msgspec.structs.replace(WARM, **{field: "other"})
    assert allocation_key(ALLOCATED, CLAIM, WARM) != allocation_key(ALLOCATED, CLAIM, other)


def many(number: int) -> resource.ResourceClaim:
    assert SOUND.allocation is not None
    results = SOUND.allocation.devices.results * number
    return replace(CLAIM, status=with_field(SOUND, ("allocation", "devices"), "results", results))


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (CLAIM, CLAIM),
        (many(9), CLAIM),
        (ALLOCATED, ALLOCATED),
        (replace(ALLOCATED, spec=replace(CLAIM.spec)), CLAIM),
        (replace(ALLOCATED, metadata=replace(CLAIM.metadata, deletion_timestamp=Time(1.0))), CLAIM),
    ],
)
def test_other_changes_have_no_key(new: resource.ResourceClaim, old: resource.ResourceClaim) -> None:
    assert allocation_key(new, old, WARM) is None
