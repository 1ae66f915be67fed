"""Applies that are refused, as a client sees them."""

from __future__ import annotations

from typing import Any

import pytest

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
