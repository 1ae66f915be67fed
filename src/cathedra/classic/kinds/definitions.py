"""The kinds of resource.k8s.io in 1.26 to 1.30, with their columns (docs/spec/api.md §7.3).

None is served by default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cathedra.api.core import resource_v1alpha1 as v1alpha1
from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.classic.kinds import conversion, strategies
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import AnyDefinition, Column, ResourceDefinition, Strategy, VersionDefinition
from cathedra.releases import FeatureGates, classic

GROUP: Final = "resource.k8s.io"
Versions = tuple[VersionDefinition, ...]


def classic_definitions(gates: FeatureGates) -> tuple[AnyDefinition, ...]:
    """The kinds of the group in the release: v1alpha1 in 1.26, v1alpha2 from 1.27 to 1.30."""
    first = gates.has(classic.V1ALPHA1)
    names = _V1ALPHA1 if first else _V1ALPHA2
    structured: tuple[AnyDefinition, ...] = ()
    if gates.has(classic.STRUCTURED_MODEL):
        # start-up time: CEL, with the one release that has them
        from cathedra.classic.kinds.structured import structured_definitions

        structured = structured_definitions()
    return (
        classic_kind(
            v1alpha2.ResourceClass,
            names["ResourceClass"],
            strategies.ClassicClassStrategy(),
            columns=CLASS_COLUMNS,
            cells=class_cells,
            plural="resourceclasses",
            namespaced=False,
        ),
        classic_kind(
            v1alpha2.ResourceClaim,
            names["ResourceClaim"],
            strategies.ClassicClaimStrategy(),
            status=strategies.ClassicClaimStatusStrategy(),
            columns=CLAIM_COLUMNS,
            cells=claim_cells,
        ),
        classic_kind(
            v1alpha2.ResourceClaimTemplate,
            names["ResourceClaimTemplate"],
            strategies.ClassicTemplateStrategy(),
            columns=TEMPLATE_COLUMNS,
            cells=template_cells,
        ),
        context_definition(names["PodSchedulingContext"], "PodScheduling" if first else "PodSchedulingContext"),
        *structured,
    )


def context_definition(versions: Versions, kind: str = "PodSchedulingContext") -> AnyDefinition:
    """The negotiation about a pod, under the name that a release gives it."""
    return classic_kind(
        v1alpha2.PodSchedulingContext,
        versions,
        strategies.ContextStrategy(),
        status=strategies.ContextStatusStrategy(),
        columns=CONTEXT_COLUMNS,
        cells=context_cells,
        kind=kind,
    )


def classic_kind(
    hub: type[KubeObject],
    versions: Versions,
    strategy: Strategy[Any],
    *,
    status: Strategy[Any] | None = None,
    kind: str = "",
    **more: Any,
) -> AnyDefinition:
    """Return the definition of a namespaced kind, with the name of its struct unless ``kind`` is given.

    ``more`` are other fields of `ResourceDefinition`, instead of the usual ones.
    """
    name = kind or hub.__name__
    usual: dict[str, Any] = {"plural": f"{name.lower()}s", "singular": name.lower(), "namespaced": True}
    return ResourceDefinition(
        group=GROUP,
        kind=name,
        type=hub,
        versions=versions,
        strategy=strategy,
        subresources={} if status is None else {"status": status},
        **usual | more,
    )


def _only(
    name: str,
    kind: type[KubeObject],
    to_hub: Callable[[Any], Any] = lambda obj: obj,
    from_hub: Callable[[Any], Any] = lambda obj: obj,
) -> Versions:
    return (VersionDefinition(name, kind, to_hub, from_hub, served_by_default=False),)


_V1ALPHA1: Final = {
    "ResourceClass": _only("v1alpha1", v1alpha1.ResourceClass, conversion.class_to_hub, conversion.class_from_hub),
    "ResourceClaim": _only("v1alpha1", v1alpha1.ResourceClaim, conversion.claim_to_hub, conversion.claim_from_hub),
    "ResourceClaimTemplate": _only(
        "v1alpha1", v1alpha1.ResourceClaimTemplate, conversion.template_to_hub, conversion.template_from_hub
    ),
    "PodSchedulingContext": _only(
        "v1alpha1", v1alpha1.PodScheduling, conversion.context_to_hub, conversion.context_from_hub
    ),
}
_V1ALPHA2: Final = {
    kind.__name__: _only("v1alpha2", kind)
    for kind in (
        v1alpha2.ResourceClass,
        v1alpha2.ResourceClaim,
        v1alpha2.ResourceClaimTemplate,
        v1alpha2.PodSchedulingContext,
    )
}


_CLASS: Final = Column("ResourceClassName", description="The class whose driver allocates.")
_MODE: Final = Column("AllocationMode", description="Whether allocation waits for the first consumer.")
CLASS_COLUMNS: Final = (NAME, Column("DriverName", description="The driver that allocates."), AGE)
CLAIM_COLUMNS: Final = (
    NAME,
    _CLASS,
    _MODE,
    Column("State", description="Whether the claim is allocated, reserved, deleted."),
    AGE,
)
TEMPLATE_COLUMNS: Final = (NAME, _CLASS, _MODE, AGE)
CONTEXT_COLUMNS: Final = (NAME, Column("SelectedNode", description="The node on which claims are wanted."), AGE)


def claim_state(claim: v1alpha2.ResourceClaim) -> str:
    """The claim's state in words, joined by commas: «allocated,reserved»."""
    deleted = claim.metadata.deletion_timestamp is not None
    states = ["deleted"] if deleted else []
    if claim.status.allocation is None:
        return ",".join(states or ["pending"])
    states.append("allocated")
    if claim.status.reserved_for:
        states.append("reserved")
    elif deleted or claim.status.deallocation_requested:
        states.append("deallocating")
    return ",".join(states)


def class_cells(resource_class: v1alpha2.ResourceClass, now: float) -> list[Any]:
    """Cells of a ResourceClass."""
    metadata = resource_class.metadata
    return [metadata.name, resource_class.driver_name, age(metadata.creation_timestamp, now)]


def claim_cells(claim: v1alpha2.ResourceClaim, now: float) -> list[Any]:
    """Cells of a ResourceClaim."""
    return [
        claim.metadata.name,
        claim.spec.resource_class_name,
        claim.spec.allocation_mode,
        claim_state(claim),
        age(claim.metadata.creation_timestamp, now),
    ]


def template_cells(template: v1alpha2.ResourceClaimTemplate, now: float) -> list[Any]:
    """Cells of a ResourceClaimTemplate."""
    metadata, spec = template.metadata, template.spec.spec
    return [metadata.name, spec.resource_class_name, spec.allocation_mode, age(metadata.creation_timestamp, now)]


def context_cells(context: v1alpha2.PodSchedulingContext, now: float) -> list[Any]:
    """Cells of a PodScheduling or PodSchedulingContext."""
    metadata = context.metadata
    return [metadata.name, context.spec.selected_node, age(metadata.creation_timestamp, now)]
