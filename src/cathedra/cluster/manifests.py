"""Manifests: YAML documents to objects, and objects to the cluster, in the order in which they stand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.decoding import DecodeError, read_yaml_documents
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import from_dict
from cathedra.client.client import Client
from cathedra.client.transport import ResourceRef
from cathedra.kinds.definition import AnyDefinition
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates


class ManifestError(ValueError):
    """A document is no object that the cluster knows."""


Manifest = tuple[ResourceRef[KubeObject], KubeObject]
"""An object and its resource."""


def read_manifests(path: Path, gates: FeatureGates) -> list[Manifest]:
    """Return all objects of a YAML file.

    Raises:
        ManifestError: a document is not YAML, has no kind, or one that is not served.
    """
    try:
        documents = [document.value for document in read_yaml_documents(path.read_bytes())]
    except DecodeError as error:
        raise ManifestError(f"{path}: {error}") from error
    refs = served_kinds(gates)
    return [manifest_of(document, refs, str(path)) for document in documents if document]


ServedKinds = Mapping[GroupVersionKind, ResourceRef[KubeObject]]


def served_kinds(gates: FeatureGates) -> ServedKinds:
    """Return all built-in kinds of a release, in each of their versions."""
    return kinds_of(all_definitions(gates))


def kinds_of(definitions: Iterable[AnyDefinition]) -> ServedKinds:
    """Return the kinds of definitions, custom ones too, in each of their versions."""
    return {
        definition.gvk(version.name): ResourceRef(
            definition.group, version.name, definition.plural, definition.kind, definition.namespaced, version.type
        )
        for definition in definitions
        for version in definition.versions
    }


def manifest_of(document: Any, kinds: ServedKinds, where: str) -> Manifest:
    """Return the object that plain values describe; ``where`` begins the text of an error.

    Raises:
        ManifestError: it has no kind, or one that is not served, or a field of the wrong type.
    """
    if not isinstance(document, Mapping) or "kind" not in document or "apiVersion" not in document:
        raise ManifestError(f"{where}: a document has no apiVersion and kind")
    gvk = GroupVersionKind.parse(document["apiVersion"], document["kind"])
    if gvk not in kinds:
        raise ManifestError(f"{where}: no kind {gvk.kind} is served in {gvk.api_version}")
    ref = kinds[gvk]
    try:
        # As kubectl sends it: opaque parameters are kept byte by byte, and an apply compares what Go would write.
        return ref, from_dict(ref.type, json.loads(json.dumps(dict(document), sort_keys=True)))
    except msgspec.ValidationError as error:
        raise ManifestError(f"{where}: {gvk.kind}: {error}") from error


async def create_all(client: Client, manifests: Iterable[Manifest], namespace: str = "default") -> list[str]:
    """Create every object; their names as ``kind/name``, in order."""
    created = []
    for ref, obj in manifests:
        metadata = obj.metadata
        where = (metadata.namespace or namespace) if ref.namespaced else ""
        made: Any = await client.resource(ref, where).create(obj)
        created.append(f"{ref.kind.lower()}/{made.metadata.name}")
    return created
