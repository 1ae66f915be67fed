"""The fields of an object that a patch leaves as they are, so that they need not be read again.

Most patches change one field of a status. The rest is there as an object already, and reading it from its values would
give the same.
"""

from __future__ import annotations

from typing import Any, TypeVar

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.decoding import KINDS_WITH_SCHEMAS
from cathedra.api.decoding.gotypes import GoType, go_type_of
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import KubeStruct, json_names, replace
from cathedra.apiserver.ownership.fieldset import FieldSet
from cathedra.apiserver.ownership.views import View
from cathedra.apiserver.patches.schema import ListShape, Shape, StructShape, struct_shape
from cathedra.apiserver.request import Call
from cathedra.remembering import remembered

__all__ = ["keeps_metadata", "kept_fields", "with_kept"]

K = TypeVar("K", bound=KubeStruct)


def kept_fields(call: Call, live: View, after: dict[str, Any]) -> frozenset[str]:
    """The fields of the top level, metadata aside, whose values are the very ones of ``live`` in ``after``."""
    if not isinstance(live.shape, StructShape) or call.gvk.kind in KINDS_WITH_SCHEMAS:
        return frozenset()
    kept = []
    for key, value in live.value.items():
        if after.get(key) is value and key != "metadata" and live.is_plain(key):
            kept.append(key)  # a comprehension is a call more, and mostly there is nothing
    return frozenset(kept)


def keeps_metadata(call: Call, metadata: ObjectMeta, live: View, after: dict[str, Any]) -> bool:
    """Whether ``after`` has the very metadata of ``live``, and reading them would give ``metadata`` again: maps are in
    order, owned fields are spelled as the server spells them."""
    if after.get("metadata") is not live.value.get("metadata") or not _knows_all_metadata(call.gvk, call.release):
        return False
    for entry in metadata.managed_fields:
        raw = entry.fields_v1
        if raw is None or FieldSet.from_own_spelling(raw) is None:
            return False
    return _is_in_order(metadata.labels) and _is_in_order(metadata.annotations)


@remembered("apiserver.ownership.keeping.knows_all_metadata", size=1024)
def _knows_all_metadata(gvk: GroupVersionKind, release: str) -> bool:
    # A store may come from a later release. If that one added fields of metadata, reading drops and reports them.
    return _has_fields_of(go_type_of(gvk, release).fields["metadata"], struct_shape(ObjectMeta))


def _has_fields_of(known: GoType | None, shape: Shape) -> bool:
    """Return True if a type of a release has every field that a shape has, at any depth."""
    if isinstance(shape, ListShape):
        return _has_fields_of(known and known.element, shape.element)
    if not isinstance(shape, StructShape) or known is None:
        return True
    fields = known.fields
    return all(name in fields and _has_fields_of(fields[name], inner) for name, inner in shape.fields.items())


def _is_in_order(texts: dict[str, str]) -> bool:
    return len(texts) < 2 or list(texts) == sorted(texts)


def with_kept(made: K, kept: frozenset[str], live: K) -> K:
    """What was read, beside what is kept of the live object of the same version."""
    if not kept:
        return made
    names = _attributes(type(made))
    return replace(made, **{names[key]: getattr(live, names[key]) for key in kept})


@remembered("apiserver.ownership.keeping.attributes", size=256)
def _attributes(kind: type[KubeStruct]) -> dict[str, str]:
    """JSON name → attribute name."""
    return {key: name for name, key in json_names(kind).items()}
