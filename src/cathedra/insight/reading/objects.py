"""Typed objects of the newest version, from plain ones of any version that a release has served."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec

from cathedra.allocation.errors import InvalidInput, UndecodableInput
from cathedra.allocation.reading import Plain, decoded_object, name_of
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.decoding import Decoded, DecodeError, decode_values
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import reshape
from cathedra.insight.reading.kinds import READ_KINDS
from cathedra.kinds.definition import AnyDefinition
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates

__all__ = ["definition_of", "read_object"]


def read_object(given: KubeObject | Plain) -> Decoded[KubeObject] | None:
    """The object in the newest version, with the fields that it has beyond it; None for kinds that are not read.

    Raises:
        InvalidInput: it has no kind, a version that is not known, or a field of the wrong type.
    """
    if (known := decoded_object(given)) is not None:
        return known
    if isinstance(given, KubeObject):
        return Decoded(given) if type(given) in _types() else None
    gvk = GroupVersionKind.parse(str(given.get("apiVersion", "")), str(given.get("kind", "")))
    definition, wanted = definition_of(gvk.group, gvk.kind), _read_as().get((gvk.group, gvk.kind))
    if definition is None or wanted is None:
        return None
    try:
        version = definition.version(gvk.version)
    except KeyError as error:
        served = ", ".join(version.name for version in definition.versions)
        where = f"{gvk.kind} {name_of(given)}: {gvk.api_version}"
        raise InvalidInput(f"{where} is no version of it; known are {served}") from error
    try:
        decoded = decode_values(version.type, gvk, given)
        hub = version.to_hub(decoded.object)
    except (DecodeError, msgspec.MsgspecError, TypeError) as error:
        raise UndecodableInput(f"{gvk.kind} {name_of(given)}: {error}") from error
    # A PodGroup is kept as v1alpha3 has it, while the scheduler reads v1beta1: the same fields, of another module.
    return Decoded(hub if type(hub) is wanted else reshape(hub, wanted), decoded.problems)


def definition_of(group: str, kind: str) -> AnyDefinition | None:
    """The rules of a kind, gated ones included; None if it is no built-in kind."""
    return _definitions().get((group, kind))


@cache
def _definitions() -> Mapping[tuple[str, str], AnyDefinition]:
    every = FeatureGates.for_release(overrides={"AllAlpha": True, "AllBeta": True})
    return {(one.group, one.kind): one for one in all_definitions(every)}


@cache
def _read_as() -> Mapping[tuple[str, str], type[KubeObject]]:
    """The type as which each kind is read."""
    return {(kind.ref.group, kind.ref.kind): kind.ref.type for kind in READ_KINDS}


@cache
def _types() -> frozenset[type[KubeObject]]:
    return frozenset(kind.ref.type for kind in READ_KINDS)
