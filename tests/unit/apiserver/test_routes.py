"""Routes: what is served is what discovery lists, and nothing else."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cathedra.apiserver.routes import VIRTUAL, routes_of, version_order
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates
from tests.unit.apiserver.asgi import open_asgi


def verbs_of(group: str, plural: str, version: str = "v1") -> dict[str, tuple[str, ...]]:
    """The verbs of a resource and its sub-resources."""
    definition = next(
        one for one in all_definitions(FeatureGates.for_release()) if (one.group, one.plural) == (group, plural)
    )
    served = next(one for one in definition.versions if one.name == version)
    return {route.subresource: route.verbs for route in routes_of(definition, served)}


def test_a_resource_and_its_sub_resources_have_routes() -> None:
    verbs = verbs_of("", "pods")
    assert verbs["exec"] == ("create", "get")
    assert verbs["log"] == ("get",)
    assert verbs["binding"] == verbs["eviction"] == ("create",)
    assert verbs["status"] == ("get", "patch", "update")
    assert verbs_of("apps", "deployments")["scale"] == ("get", "patch", "update")
    assert "scale" not in verbs_of("apps", "daemonsets")


def test_namespaces_are_deleted_one_by_one() -> None:
    assert "deletecollection" not in verbs_of("", "namespaces")[""]
    assert verbs_of("", "namespaces")["finalize"] == ("update",)


async def test_discovery_lists_every_route_and_no_other() -> None:
    async with open_asgi() as asgi:
        found = set()
        groups: Any = (await asgi("GET", "/apis")).json["groups"]
        paths = ["/api/v1"]
        paths += [f"/apis/{version['groupVersion']}" for group in groups for version in group["versions"]]
        for path in paths:
            for one in (await asgi("GET", path)).json["resources"]:
                found.add((path, one["name"], tuple(one["verbs"]), one["namespaced"]))
        expected = set()
        for route in asgi.server.catalog.routes():
            path = f"/apis/{route.group}/{route.version}" if route.group else f"/api/{route.version}"
            name = f"{route.resource}/{route.subresource}" if route.subresource else route.resource
            expected.add((path, name, route.verbs, route.namespaced))
    assert found == expected
    assert len(found) > 20 + len(VIRTUAL)


async def test_routes_go_with_their_definition() -> None:
    async with open_asgi() as asgi:
        catalog = asgi.server.catalog
        definition = next(one for one in catalog if one.plural == "pods")
        assert catalog.route("", "v1", "pods", "exec") is not None
        catalog.remove(definition.group_resource)
        assert not [route for route in catalog.routes() if route.resource == "pods"]
        catalog.add(definition)
        assert catalog.route("", "v1", "pods", "exec") is not None


DOCUMENTED = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
"""Kubernetes' documentation of versions in CustomResourceDefinitions gives this order."""


@given(st.permutations(DOCUMENTED))
def test_stable_versions_come_first_then_beta_then_alpha_then_other_names(shuffled: list[str]) -> None:
    assert sorted(shuffled, key=version_order) == DOCUMENTED
