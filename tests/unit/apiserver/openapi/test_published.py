"""The schemas of resource.k8s.io equal those that Kubernetes published with its releases.

`published.json.xz` has every schema of the group in version 2 of OpenAPI, without descriptions. Kubernetes publishes
the document without enumerations, which a running kube-apiserver shows.
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


@cache
def published() -> dict[str, dict[str, Any]]:
    """Kubernetes' schemas: release → name → schema."""
    packed = (Path(__file__).parent / "published.json.xz").read_bytes()
    schemas: dict[str, dict[str, Any]] = json.loads(lzma.decompress(packed))["schemas"]
    return schemas


def definitions(release: str) -> dict[str, Any]:
    """Our definitions of version 2, with all gates on, as Kubernetes generates its document."""
    gates = FeatureGates.for_release(release, {"AllAlpha": True, "AllBeta": True})
    documents = Documents(Catalog(served_definitions(all_definitions(gates), gates, {"api/all": True})), release)
    parts = [swagger_part(documents.group_version(*one)) for one in documents.group_versions()]
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
def test_the_schemas_of_a_release_equal_those_that_kubernetes_published(release: str) -> None:
    ours = {name: plain(schema) for name, schema in definitions(release).items() if name.startswith(GROUP)}
    assert ours == published()[release]
