"""Schemas equal those that Kubernetes published with its releases.

`published.json.xz` has the schemas of the types that are served in version 2 of OpenAPI, without descriptions.
Kubernetes publishes the document without enumerations, which a running kube-apiserver shows.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cathedra.apiserver.catalog import Catalog, served_definitions
from cathedra.apiserver.openapi.document import Documents
from cathedra.apiserver.openapi.swagger import joined, swagger_part
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates

GROUP = "io.k8s.api.resource."
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
DIFFERENT = {
    # The package with the published documents writes the two that are texts or numbers in its own way.
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
}
"""Types whose schemas differ in every release."""
DIFFERENT_IN = {
    "1.34": {
        "io.k8s.api.certificates.v1.CertificateSigningRequestSpec",
        "io.k8s.api.certificates.v1.CertificateSigningRequestStatus",
        f"{_META}Status",
    },
    "1.36": {"io.k8s.api.core.v1.PodStatus"},
}
"""Types of a release whose list types are those of a newer one."""


@cache
def published() -> dict[str, dict[str, Any]]:
    """Kubernetes' schemas: release → name → schema."""
    packed = (Path(__file__).parent / "published.json.xz").read_bytes()
    schemas: dict[str, dict[str, Any]] = json.loads(lzma.decompress(packed))["schemas"]
    return schemas


@cache
def definitions(release: str) -> dict[str, Any]:
    """Our definitions of version 2, with all gates on, as Kubernetes generates its document."""
    gates = FeatureGates.for_release(release, {"AllAlpha": True, "AllBeta": True})
    documents = Documents(Catalog(served_definitions(all_definitions(gates), gates, {"api/all": True})), release)
    parts = [swagger_part(documents.group_version(*one)) for one in documents.group_versions()]
    parts += [swagger_part(documents.around(path)) for path in ("api", "apis", "apis/apps", "version")]
    found: dict[str, Any] = json.loads(joined(parts, release))["definitions"]
    return found


def plain(schema: Any) -> Any:
    """A schema without the descriptions, which are each project's own words, and enumerations."""
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = {"description", "enum"}
    properties = {name: plain(one) for name, one in schema.get("properties", {}).items()}
    made = {key: plain(value) for key, value in schema.items() if key not in left_out | {"properties"}}
    return made | ({"properties": properties} if properties else {})


@pytest.mark.parametrize("release", sorted(published()))
def test_resource_k8s_io_has_the_types_that_kubernetes_published(release: str) -> None:
    ours, theirs = (
        {name for name in schemas if name.startswith(GROUP)} for schemas in (definitions(release), published()[release])
    )
    assert ours == theirs


@pytest.mark.parametrize("release", sorted(published()))
def test_the_schemas_of_a_release_equal_those_that_kubernetes_published(release: str) -> None:
    theirs, ours = published()[release], definitions(release)
    different = {name for name in theirs.keys() & ours.keys() if plain(ours[name]) != theirs[name]}
    assert different == (DIFFERENT & theirs.keys()) | DIFFERENT_IN.get(release, set())


@pytest.mark.parametrize("release", sorted(published()))
def test_a_release_has_the_fields_that_kubernetes_published(release: str) -> None:
    theirs = published()[release]
    wrong = {
        name: sorted(differing)
        for name, schema in definitions(release).items()
        if name in theirs
        and (differing := schema.get("properties", {}).keys() ^ theirs[name].get("properties", {}).keys())
    }
    assert wrong == {}
