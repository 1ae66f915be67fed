"""OpenAPI schemas of resource.k8s.io: required fields, defaults, formats and extensions, descriptions left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cathedra.apiserver.catalog import Catalog, served_definitions
from cathedra.apiserver.openapi.document import Documents
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates
from tools.follow.report import Difference
from tools.follow.source import Source

__all__ = ["FOLDER", "differences", "file_of"]

SUBJECT = "openapi"
FOLDER = "api/openapi-spec/v3"
GROUP = "resource.k8s.io"
VERSIONS = ("v1", "v1beta2", "v1beta1", "v1alpha3")
_LONGEST = 120


def file_of(version: str) -> str:
    """Return the file with the schemas of a version of the group."""
    return f"{FOLDER}/apis__{GROUP}__{version}_openapi.json"


def differences(source: Source, release: str) -> Iterator[Difference]:
    """Yield schemas and properties of the group's types that differ, all gates on, as Kubernetes generates them."""
    gates = FeatureGates.for_release(release, {"AllAlpha": True, "AllBeta": True})
    served = served_definitions(all_definitions(gates), gates, {"api/all": True})
    documents = Documents(Catalog(served), release)
    for version in VERSIONS:
        file = file_of(version)
        text = source.read(file)
        if text is None:
            continue
        ours = _schemas(documents.group_version(GROUP, version), version)
        theirs = _schemas(json.loads(text), version)
        for name in sorted(theirs.keys() | ours.keys()):
            yield from _of_schema(name, theirs.get(name), ours.get(name), file)


def _schemas(document: Any, version: str) -> dict[str, Any]:
    prefix = f"io.k8s.api.resource.{version}."
    found = document["components"]["schemas"].items()
    return {name: _plain(schema) for name, schema in found if name.startswith(prefix)}


def _plain(value: Any) -> Any:
    """The schema without descriptions, which are each project's own words. A property may have that name too."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if key != "description" or isinstance(one, dict)}
    return value


def _of_schema(name: str, theirs: Any, ours: Any, file: str) -> Iterator[Difference]:
    short = name.removeprefix("io.k8s.api.")
    if theirs is None or ours is None:
        yield Difference(SUBJECT, short, _has(theirs), _has(ours), file)
        return
    properties = {**theirs.get("properties", {}), **ours.get("properties", {})}
    for field in sorted(properties):
        one, other = theirs.get("properties", {}).get(field), ours.get("properties", {}).get(field)
        if one != other:
            yield Difference(SUBJECT, f"{short}.{field}", _shown(one), _shown(other), file)
    for key in sorted((theirs.keys() | ours.keys()) - {"properties"}):
        if theirs.get(key) != ours.get(key):
            yield Difference(SUBJECT, f"{short} {key}", _shown(theirs.get(key)), _shown(ours.get(key)), file)


def _has(schema: Any) -> str:
    return "lacks the schema" if schema is None else "has the schema"


def _shown(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, sort_keys=True)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
