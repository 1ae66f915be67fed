"""The objects of priority and fairness that every cluster has."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.flowcontrol_v1 import FlowSchema
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import replace
from cathedra.apiserver.bootstrap.flowcontrol import flow_control
from cathedra.apiserver.bootstrap.keeping import ObjectKeeper
from cathedra.client.resources import resource_ref
from cathedra.kinds.machinery.flowcontrol import validate_flow_schema, validate_priority_level
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded

AUTOUPDATE = "apf.kubernetes.io/autoupdate-spec"
GROUP = "flowcontrol.apiserver.k8s.io"
FLOWSCHEMAS = resource_ref(FlowSchema, "flowschemas", namespaced=False)


def stored(api: Guarded, plural: str, name: str) -> Any:
    return api.server.context.registry.find(GroupResource(GROUP, plural), name)


def test_every_object_obeys_the_rules_and_every_schema_names_a_level() -> None:
    objects = [kept.object for kept in flow_control()]
    levels = {one.metadata.name: one for one in objects if hasattr(one.spec, "limited")}
    schemas = [one for one in objects if hasattr(one.spec, "matching_precedence")]
    assert (len(levels), len(schemas)) == (8, 13)
    assert [validate_priority_level(level) for level in levels.values() if validate_priority_level(level)] == []
    assert [validate_flow_schema(schema) for schema in schemas if validate_flow_schema(schema)] == []
    assert {schema.spec.priority_level_configuration.name for schema in schemas} == levels.keys()


@run_with(guarded)
async def test_mandatory_objects_are_kept_and_missing_ones_made_again(api: Guarded) -> None:
    keeper = ObjectKeeper(api.server.context, list(flow_control()))
    await keeper.reconcile()
    schemas = api.admin.resource(FLOWSCHEMAS)
    await change(api, "catch-all", annotation="false")
    await keeper.reconcile()
    kept = await schemas.get("catch-all")
    assert (kept.spec.matching_precedence, kept.metadata.annotations) == (10_000, {AUTOUPDATE: "true"})
    await schemas.delete("probes")
    await keeper.reconcile()
    assert (await schemas.get("probes")).spec.priority_level_configuration.name == "exempt"


@pytest.mark.parametrize(
    ("annotation", "precedence", "after"),
    [("true", 9_000, "true"), ("false", 77, "false"), ("0", 77, "0"), (None, 77, "false"), ("perhaps", 77, "false")],
)
@run_with(guarded)
async def test_a_suggested_object_that_was_changed_is_kept_as_its_annotation_says(
    api: Guarded, *, annotation: str | None, precedence: int, after: str
) -> None:
    keeper = ObjectKeeper(api.server.context, list(flow_control()))
    await keeper.reconcile()
    await change(api, "service-accounts", annotation=annotation)
    await keeper.reconcile()
    kept = await api.admin.resource(FLOWSCHEMAS).get("service-accounts")
    assert (kept.spec.matching_precedence, kept.metadata.annotations) == (precedence, {AUTOUPDATE: after})


@run_with(guarded)
async def test_a_suggested_object_that_was_never_changed_gets_its_annotation_back(api: Guarded) -> None:
    keeper = ObjectKeeper(api.server.context, list(flow_control()))
    await keeper.reconcile()
    schemas = api.admin.resource(FLOWSCHEMAS)
    schema = await schemas.get("service-accounts")
    await schemas.update(replace(schema, metadata=replace(schema.metadata, annotations={})))
    await keeper.reconcile()
    assert (await schemas.get("service-accounts")).metadata.annotations == {AUTOUPDATE: "true"}


async def change(api: Guarded, name: str, *, annotation: str | None) -> None:
    """Give a schema another precedence, and another annotation or none."""
    schemas = api.admin.resource(FLOWSCHEMAS)
    schema = await schemas.get(name)
    annotations = {} if annotation is None else {AUTOUPDATE: annotation}
    changed = replace(schema, spec=replace(schema.spec, matching_precedence=77))
    await schemas.update(replace(changed, metadata=replace(schema.metadata, annotations=annotations)))


@run_with(guarded)
async def test_nothing_is_written_when_everything_is_there(api: Guarded) -> None:
    keeper = ObjectKeeper(api.server.context, list(flow_control()))
    await keeper.reconcile()
    before = api.server.revision
    await keeper.reconcile()
    assert api.server.revision == before
    assert stored(api, "prioritylevelconfigurations", "exempt").spec.exempt.nominal_concurrency_shares == 0
