"""Claims and templates as they are written."""

from __future__ import annotations

from cathedra.api import resource
from cathedra.api.struct import from_dict, replace
from tests.unit.kinds.objects import claim, context, created, definition_of, exactly, updated

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
