"""The kinds that a release serves: the list that server, discovery, tables and clients are driven by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cathedra.api.nulltimes import with_null_times
from cathedra.kinds.apps.definitions import apps_definitions
from cathedra.kinds.batch.definitions import batch_definitions
from cathedra.kinds.core.definitions import core_definitions
from cathedra.kinds.definition import AnyDefinition, VersionDefinition
from cathedra.kinds.machinery.definitions import machinery_definitions
from cathedra.kinds.resource.definitions import device_definitions
from cathedra.kinds.scheduling.definitions import scheduling_definitions
from cathedra.releases import FeatureGates, behaviours


def all_definitions(gates: FeatureGates, devices: tuple[AnyDefinition, ...] | None = None) -> tuple[AnyDefinition, ...]:
    """Every kind that the release serves, gated kinds only if their gate is open.

    ``devices`` are the kinds of resource.k8s.io, where they are not those that the group has had since 1.32.
    """
    kinds = (
        *core_definitions(),
        *apps_definitions(),
        *batch_definitions(),
        *machinery_definitions(gates),
        *scheduling_definitions(gates),
        *(device_definitions(gates) if devices is None else devices),
    )
    served = tuple(kind for kind in kinds if not kind.gate or gates[kind.gate])
    return served if gates.has(behaviours.CREATION_TIMESTAMP_OMITTED) else tuple(map(_with_null_times, served))


def _with_null_times(definition: AnyDefinition) -> AnyDefinition:
    versions = tuple(msgspec.structs.replace(one, shown=_null_times_of(one)) for one in definition.versions)
    return msgspec.structs.replace(definition, versions=versions)


def _null_times_of(version: VersionDefinition) -> Callable[[Any], Any]:
    shown = version.shown
    return with_null_times if shown is None else lambda obj: with_null_times(shown(obj))
