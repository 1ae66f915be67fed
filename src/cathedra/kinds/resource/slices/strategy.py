"""Strategy, columns and definition of slices (docs/spec/api.md §3.6 and §3.7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from cathedra.api import resource
from cathedra.api.field import ErrorList
from cathedra.api.struct import replace
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import Column, RequestContext, ResourceDefinition, Strategy
from cathedra.kinds.resource.declared import slice_tags, with_declared
from cathedra.kinds.resource.errorpaths import paths_of_release
from cathedra.kinds.resource.slices.conversion import SLICE_SHAPES
from cathedra.kinds.resource.slices.defaults import default_slice
from cathedra.kinds.resource.slices.disabled_fields import enabled_slice_spec
from cathedra.kinds.resource.slices.validation import validate_slice
from cathedra.kinds.resource.versions import GROUP, served_versions
from cathedra.kinds.strategies import first_generation
from cathedra.releases import FeatureGates, behaviours

SLICE_COLUMNS: Final = (
    NAME,
    Column("Node", description="The node the devices are local to."),
    Column("Driver", description="The driver that publishes the devices."),
    Column("Pool", description="The pool the devices belong to."),
    AGE,
)


class SliceStrategy(Strategy[resource.ResourceSlice]):
    """A slice of a pool, written by its driver."""

    def default(self, obj: resource.ResourceSlice, context: RequestContext) -> resource.ResourceSlice:
        """Set the times of taints."""
        return default_slice(obj, context.now)

    def prepare_create(self, obj: resource.ResourceSlice, context: RequestContext) -> resource.ResourceSlice:
        """Drop what closed gates forbid, start counting."""
        return first_generation(replace(obj, spec=enabled_slice_spec(obj.spec, None, context.gates)))

    def validate_create(self, obj: resource.ResourceSlice, context: RequestContext) -> ErrorList:
        """Check all rules of a slice."""
        return _with_declared(obj, None, context)

    def prepare_update(
        self, new: resource.ResourceSlice, old: resource.ResourceSlice, context: RequestContext
    ) -> resource.ResourceSlice:
        """Count the change, then drop what closed gates forbid."""
        # Counted before closed fields are removed, as in Kubernetes: a driver that sends a field behind a closed gate
        # gets a new generation with each write.
        generation = old.metadata.generation + (new.spec != old.spec)
        spec = enabled_slice_spec(new.spec, old.spec, context.gates)
        return replace(new, metadata=replace(new.metadata, generation=generation), spec=spec)

    def validate_update(
        self, new: resource.ResourceSlice, old: resource.ResourceSlice, context: RequestContext
    ) -> ErrorList:
        """Check all rules of a slice, and its immutable fields."""
        return _with_declared(new, old, context)

    def warnings(
        self, new: resource.ResourceSlice, old: resource.ResourceSlice | None, context: RequestContext
    ) -> Sequence[str]:
        """Warn of a driver's name that is not in lower case."""
        if new.spec.driver != new.spec.driver.lower():
            return (
                f'spec.driver: driver names should be lowercase; "{new.spec.driver}" contains uppercase characters',
            )
        return ()


def _with_declared(
    new: resource.ResourceSlice, old: resource.ResourceSlice | None, context: RequestContext
) -> ErrorList:
    # Paths of the release first, tags second: tags report paths of the version of the request, and merging compares
    # both.
    found = paths_of_release(validate_slice(new, old, context), context.gates)
    return with_declared(found, slice_tags(context.gates), SLICE_SHAPES, new, old, context)


def slice_cells(piece: resource.ResourceSlice, now: float) -> list[Any]:
    """Return the cells of a ResourceSlice."""
    spec = piece.spec
    created = age(piece.metadata.creation_timestamp, now)
    return [piece.metadata.name, spec.node_name or "", spec.driver, spec.pool.name, created]


def slice_definition(gates: FeatureGates) -> ResourceDefinition[resource.ResourceSlice]:
    """Return the definition of resourceslices."""
    return ResourceDefinition(
        group=GROUP,
        kind="ResourceSlice",
        plural="resourceslices",
        singular="resourceslice",
        namespaced=False,
        type=resource.ResourceSlice,
        versions=served_versions(gates, SLICE_SHAPES),
        strategy=SliceStrategy(),
        columns=SLICE_COLUMNS,
        cells=slice_cells,
        field_selectors=_slice_fields(gates),
        indexed_fields=("spec.nodeName",),
    )


def _slice_fields(gates: FeatureGates) -> dict[str, Callable[[resource.ResourceSlice], str]]:
    fields: dict[str, Callable[[resource.ResourceSlice], str]] = {
        "spec.nodeName": lambda piece: piece.spec.node_name or "",
        "spec.driver": lambda piece: piece.spec.driver,
    }
    if gates.has(behaviours.SLICES_SELECTED_BY_POOL):
        fields["spec.pool.name"] = lambda piece: piece.spec.pool.name
    return fields
