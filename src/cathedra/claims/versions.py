"""Versions of resource.k8s.io: the one to use with a cluster, and objects in it (docs/spec/api.md §5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from cathedra.allocation.errors import InvalidInput
from cathedra.allocation.reading import Input, plain_objects, typed_object
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.struct import to_dict
from cathedra.kinds.resource.claims.conversion import CLAIM_SHAPES, TEMPLATE_SHAPES
from cathedra.kinds.resource.classes import CLASS_SHAPES
from cathedra.kinds.resource.slices.conversion import SLICE_SHAPES
from cathedra.kinds.resource.versions import GROUP, Shapes

__all__ = ["VERSIONS", "Manifest", "in_version", "preferred_version"]

Manifest: TypeAlias = dict[str, Any]
"""An object as plain values, ready for a client."""
VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
"""Versions to which objects can be converted, the newest first."""
_SHAPES: Final[Mapping[type[KubeObject], Shapes]] = {
    shapes.hub: shapes for shapes in (CLAIM_SHAPES, TEMPLATE_SHAPES, CLASS_SHAPES, SLICE_SHAPES)
}


def preferred_version(group_versions: Iterable[str]) -> str | None:
    """Return the newest version that a cluster serves; None if it serves none, and has no claims.

    ``group_versions`` are names as ``resource.k8s.io/v1``, of all groups or of this one, as discovery lists them.
    """
    served = frozenset(group_versions)
    return next((version for version in VERSIONS if f"{GROUP}/{version}" in served), None)


def in_version(given: Input, version: str) -> Manifest:
    """Return a claim, template, slice or class in ``version``, of whatever version and client it is.

    Raises:
        InvalidInput: there is no such version, ``given`` is not one object of these kinds, or it has a field that is
            not known, which the conversion would drop.
    """
    if version not in VERSIONS:
        raise InvalidInput(f"version {version!r} of {GROUP} is not known; known are {', '.join(VERSIONS)}")
    objects = list(plain_objects(given))
    if len(objects) != 1:
        raise InvalidInput(f"expected one object, got {len(objects)}")
    typed = typed_object(objects[0], strict=True)
    shapes = _SHAPES.get(type(typed)) if typed is not None else None
    if shapes is None:
        raise InvalidInput(f"expected an object of {', '.join(kind.__name__ for kind in _SHAPES)}")
    older = {one.name: one for one in shapes.older}
    made = to_dict(older[version].from_hub(typed) if version in older else typed)
    if not made.get("status"):
        made.pop("status", None)
    return {"apiVersion": f"{GROUP}/{version}", "kind": shapes.hub.__name__, **made}
