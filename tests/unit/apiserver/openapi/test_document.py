"""The OpenAPI documents: complete, consistent, and with the facts that clients read."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from cathedra.apiserver.catalog import Catalog, served_definitions
from cathedra.apiserver.openapi.document import Documents
from cathedra.apiserver.openapi.swagger import joined, kept_path, swagger_part
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates


@pytest.fixture(scope="module")
def documents() -> Documents:
    gates = FeatureGates.for_release()
    return Documents(Catalog(served_definitions(all_definitions(gates), gates, {})), "1.37")


def references(value: Any) -> Iterator[str]:
    return (match[1] for match in re.finditer(r'"\$ref": "#/[a-z/]+/([^"]+)"', json.dumps(value)))


def test_every_reference_leads_somewhere(documents: Documents) -> None:
    for group, version in documents.group_versions():
        document = documents.group_version(group, version)
        assert set(references(document)) <= set(document["components"]["schemas"])


def test_every_field_is_described(documents: Documents) -> None:
    schemas = documents.group_version("resource.k8s.io", "v1")["components"]["schemas"]
    bare = [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, described in schema.get("properties", {}).items()
        if not described.get("description")
    ]
    assert bare == []


def test_a_write_says_that_the_server_validates_fields(documents: Documents) -> None:
    """Without the parameter kubectl would validate by itself, against OpenAPI v2."""
    paths = documents.group_version("", "v1")["paths"]
    for method, path in (("post", "/api/v1/namespaces/{namespace}/pods"), ("patch", "/api/v1/nodes/{name}")):
        assert "fieldValidation" in [one["name"] for one in paths[path][method]["parameters"]]


def test_lists_say_how_they_merge(documents: Documents) -> None:
    schemas = documents.group_version("", "v1")["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]


def test_a_field_of_a_later_release_is_not_there_before() -> None:
    gates = FeatureGates.for_release("1.36")
    older = Documents(Catalog(served_definitions(all_definitions(gates), gates, {})), "1.36")
    schemas = older.group_version("resource.k8s.io", "v1")["components"]["schemas"]
    assert "derivedAttributes" not in schemas["io.k8s.api.resource.v1.ExactDeviceRequest"]["properties"]


@pytest.mark.parametrize(("release", "required"), [("1.37", ["value"]), ("1.38", [])])
def test_the_value_of_a_counter_is_required_until_it_may_come_from_a_request(release: str, required: list[str]) -> None:
    gates = FeatureGates.for_release(release)
    documents = Documents(Catalog(served_definitions(all_definitions(gates), gates, {})), release)
    schemas = documents.group_version("resource.k8s.io", "v1")["components"]["schemas"]
    counter = schemas["io.k8s.api.resource.v1.Counter"]
    assert counter.get("required", []) == required
    assert ("valueFrom" in counter["properties"]) is (not required)


@pytest.mark.parametrize(("release", "required"), [("1.37", None), ("1.38", ["parameterNotFoundAction"])])
def test_the_reference_to_parameters_says_what_happens_without_them(release: str, required: list[str] | None) -> None:
    """kubernetes/kubernetes#141527."""
    gates = FeatureGates.for_release(release)
    documents = Documents(Catalog(served_definitions(all_definitions(gates), gates, {})), release)
    schemas = documents.group_version("admissionregistration.k8s.io", "v1")["components"]["schemas"]
    assert schemas["io.k8s.api.admissionregistration.v1.ParamRef"].get("required") == required


def test_operations_have_names_of_their_own(documents: Documents) -> None:
    names = [
        operation["operationId"]
        for gv in random.Random(1).sample(documents.group_versions(), 6)
        for item in documents.group_version(*gv)["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    ]
    assert len(names) == len(set(names))


def test_the_older_form_has_everything_in_one_document(documents: Documents) -> None:
    parts = [swagger_part(documents.group_version(*gv, kept=kept_path)) for gv in documents.group_versions()]
    made = json.loads(joined(parts, "1.37"))
    assert set(references(made)) <= set(made["definitions"])
    quantity = made["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"]
    assert quantity["type"] == "string"
    body = made["paths"]["/api/v1/namespaces/{namespace}/pods"]["post"]["parameters"][0]
    assert body["schema"] == {"$ref": "#/definitions/io.k8s.api.core.v1.Pod"}


def test_structs_in_lists_and_maps_start_out_empty() -> None:
    """kube-openapi wraps each reference in `allOf`, so that the default may stand beside it."""
    gates = FeatureGates.for_release()
    documents = Documents(Catalog(served_definitions(all_definitions(gates), gates, {"api/all": True})), "1.37")
    versions = [version for group, version in documents.group_versions() if group == "resource.k8s.io"]
    assert {"v1", "v1beta1", "v1beta2", "v1alpha3"} <= set(versions)
    wrong = []
    for version in versions:
        schemas = documents.group_version("resource.k8s.io", version)["components"]["schemas"]
        for name, schema in schemas.items():
            for field, described in schema.get("properties", {}).items():
                element = described.get("items") or described.get("additionalProperties")
                if not isinstance(element, dict):
                    continue
                if "$ref" in element:
                    leads = schemas[element["$ref"].rsplit("/", 1)[1]]
                    if "properties" in leads:
                        wrong.append(f"{version} {name}.{field}")
                elif "default" not in element and element.get("type") != "array":
                    wrong.append(f"{version} {name}.{field}")
    assert wrong == []


def test_the_disruption_mode_was_a_text_at_first() -> None:
    gates = FeatureGates.for_release("1.36", {"GenericWorkload": True})
    served = served_definitions(all_definitions(gates), gates, {"scheduling.k8s.io/v1alpha2": True})
    schemas = Documents(Catalog(served), "1.36").group_version("scheduling.k8s.io", "v1alpha2")["components"]["schemas"]
    mode = schemas["io.k8s.api.scheduling.v1alpha2.PodGroupSpec"]["properties"]["disruptionMode"]
    assert {key: mode[key] for key in mode if key != "description"} == {"type": "string", "default": "Pod"}
