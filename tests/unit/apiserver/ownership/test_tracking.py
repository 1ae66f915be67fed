"""Applies as a client sees them, and what is remembered about them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.status import StatusError
from cathedra.api.struct import encode, from_dict
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.ownership.tracking import applied, tracked
from cathedra.apiserver.request import Call
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates
from tests.unit.apiserver.asgi import open_asgi

PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize("cpu", ["abc", True])
async def test_what_cannot_be_read_is_told_as_a_failed_conversion(cpu: Any) -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": cpu}}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [container]}}
    async with open_asgi() as asgi:
        refused = await asgi("PATCH", f"{PODS}/x?fieldManager=m", body, content_type="application/apply-patch+yaml")
        assert (refused.status, refused.json["message"]) == (
            500,
            "failed to convert new object (/x; /v1, Kind=Pod) to proper version: unable to convert unstructured object"
            " to /v1, Kind=Pod: quantities must match the regular expression"
            " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )
        assert (await asgi("GET", f"{PODS}/x")).status == 404


@pytest.mark.parametrize("spec", [{}, {"spec": {}}, {"spec": {"devices": {}}}])
async def test_what_an_apply_leaves_out_of_a_new_object_is_empty(spec: dict[str, Any]) -> None:
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "x"}, **spec}
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/x?fieldManager=m"
    async with open_asgi() as asgi:
        made = await asgi("PATCH", path, body, content_type="application/apply-patch+yaml")
        assert (made.status, made.json["spec"]["devices"]) == (201, {"requests": None})
        again = await asgi("PATCH", path, body, content_type="application/apply-patch+yaml")
        assert (again.status, again.json) == (200, made.json)


PODS_DEFINITION = next(one for one in all_definitions(FeatureGates.for_release()) if one.plural == "pods")
CALL = Call(
    user=UserInfo("ann"),
    verb="patch",
    definition=PODS_DEFINITION,
    version=PODS_DEFINITION.versions[0],
    namespace="ns",
    name="p",
    subresource="status",
    field_manager="controller",
)
CLAIM = st.fixed_dictionaries({"name": st.sampled_from("ab")}, optional={"resourceClaimName": st.sampled_from("xy")})
STATUS = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Pending", "Running"]),
        "resourceClaimStatuses": st.lists(CLAIM, max_size=2, unique_by=lambda one: one["name"]),
    },
)
METADATA = st.fixed_dictionaries(
    {"name": st.just("p")}, optional={"labels": st.sampled_from([{"a": ""}, {"b": "", "a": ""}]), "uid": st.just("u")}
)
SPEC = st.sampled_from([{}, {"nodeName": "n"}, {"nodeSelector": {"b": "", "a": ""}}])
LIVE = st.fixed_dictionaries({"metadata": METADATA, "spec": SPEC, "status": STATUS})
CONFIGURATIONS = st.fixed_dictionaries(
    {"metadata": METADATA}, optional={"status": STATUS, "spec": st.just({"nodeName": "m"})}
)


def _outcome(call: Call, live: Any, configuration: dict[str, Any], *, spelled: bytes) -> Any:
    try:
        return applied(call, live, configuration, 9.0, spelled)
    except StatusError as error:
        return error.status


@settings(max_examples=150)
@given(LIVE, st.lists(CONFIGURATIONS, min_size=1, max_size=3), st.booleans(), st.sampled_from(["status", ""]))
def test_an_apply_in_a_known_form_ends_as_one_that_is_worked_out(
    values: dict[str, Any], configurations: list[dict[str, Any]], force: bool, subresource: str
) -> None:
    call = CALL.but(force=force, subresource=subresource)
    live = tracked(call.but(field_manager="maker", subresource=""), None, from_dict(Pod, values), 5.0)
    for number, configuration in enumerate(configurations):
        mine = call.but(field_manager=f"controller {number}")
        worked_out = _outcome(mine, live, configuration, spelled=b"")
        for _ in range(2):
            outcome = _outcome(mine, live, configuration, spelled=encode(live))
            assert _without_reset(outcome, subresource) == _without_reset(worked_out, subresource)
        live = worked_out if isinstance(worked_out, Pod) else live


def _without_reset(outcome: Any, subresource: str) -> bytes:
    """The JSON without what the strategy takes from the stored object whatever the apply makes of it."""
    if isinstance(outcome, Pod):
        outcome = msgspec.structs.replace(outcome, **{"spec" if subresource else "status": None})
    return encode(outcome)
