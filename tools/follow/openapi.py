"""OpenAPI schemas of version 2 and 3: types, fields, required fields, defaults, formats and extensions.

Descriptions are left out: they are each project's own words. Enumerations are compared only if the document of
Kubernetes has any: ``hack/update-openapi-spec.sh`` writes the documents of the repository without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cathedra.apiserver.catalog import Catalog, served_definitions
from cathedra.apiserver.openapi.document import Documents
from cathedra.apiserver.openapi.swagger import swagger_part
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates
from tools.follow.report import Difference
from tools.follow.source import Source

__all__ = ["FOLDER", "SWAGGER", "differences", "file_of"]

SUBJECT = "openapi"
FOLDER = "api/openapi-spec/v3"
SWAGGER = "api/openapi-spec/swagger.json"
_LONGEST = 120

Schemas = dict[str, Any]


def file_of(group: str, version: str) -> str:
    """Return the file with the document of a group and version."""
    return f"{FOLDER}/apis__{group}__{version}_openapi.json" if group else f"{FOLDER}/api__{version}_openapi.json"


def differences(source: Source, release: str) -> Iterator[Difference]:
    """Yield schemas and properties that differ, all gates on, as Kubernetes generates them.

    Each document of version 3 has the schemas that it refers to, so most are in several. One is compared once.
    """
    gates = FeatureGates.for_release(release, {"AllAlpha": True, "AllBeta": True})
    served = served_definitions(all_definitions(gates), gates, {"api/all": True})
    documents = Documents(Catalog(served), release)
    compared: set[str] = set()
    for group, version in documents.group_versions():
        file = file_of(group, version)
        if (text := source.read(file)) is not None:
            theirs = json.loads(text)["components"]["schemas"]
            ours = documents.group_version(group, version)["components"]["schemas"]
            yield from _of_document(theirs, ours, compared, file)
    if (text := source.read(SWAGGER)) is not None:
        yield from _of_document(json.loads(text)["definitions"], _definitions(documents), set(), SWAGGER)


def _definitions(documents: Documents) -> Schemas:
    found: Schemas = {}
    paths = [documents.group_version(*one) for one in documents.group_versions()]
    for document in [*paths, *map(documents.around, ("api", "apis", "apis/apps", "version"))]:
        found |= {name: json.loads(bytes(raw)) for name, raw in swagger_part(document).definitions.items()}
    return found


def _of_document(theirs: Schemas, ours: Schemas, compared: set[str], file: str) -> Iterator[Difference]:
    left_out = {"description"} if _enumerates(theirs) else {"description", "enum"}
    for name in sorted((theirs.keys() | ours.keys()) - compared):
        yield from _of_schema(name, _plain(theirs.get(name), left_out), _plain(ours.get(name), left_out), file)
    compared |= theirs.keys() | ours.keys()


def _enumerates(schemas: Schemas) -> bool:
    fields = (field for schema in schemas.values() for field in schema.get("properties", {}).values())
    return any("enum" in field for field in fields)


def _plain(value: Any, left_out: set[str]) -> Any:
    """Return the schema without some keys. A property may have the name of such a key."""
    if isinstance(value, list):
        return [_plain(one, left_out) for one in value]
    if isinstance(value, dict):
        return {
            key: {name: _plain(field, left_out) for name, field in one.items()}
            if key == "properties"
            else _plain(one, left_out)
            for key, one in value.items()
            if key not in left_out
        }
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
