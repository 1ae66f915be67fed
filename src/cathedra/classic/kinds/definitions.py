"""The kinds of resource.k8s.io in 1.26 to 1.30, with their columns (docs/spec/api.md §7.3).

None is served by default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from cathedra.api.core import resource_v1alpha1 as v1alpha1
from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.field import ErrorList
from cathedra.api.struct import KubeStruct, replace, reshape
from cathedra.classic.kinds import validation
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.definition import (
    AnyDefinition,
    Column,
    RequestContext,
    ResourceDefinition,
    Strategy,
    VersionDefinition,
)
from cathedra.kinds.strategies import StatusStrategy, kept_metadata
from cathedra.releases import FeatureGates, classic

GROUP: Final = "resource.k8s.io"
Versions = tuple[VersionDefinition, ...]


def classic_definitions(gates: FeatureGates) -> tuple[AnyDefinition, ...]:
    """Return the kinds of the group in the release: v1alpha1 in 1.26, v1alpha2 from 1.27 to 1.30."""
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
            ClassicClassStrategy(),
            columns=CLASS_COLUMNS,
            cells=class_cells,
            plural="resourceclasses",
            namespaced=False,
        ),
        classic_kind(
            v1alpha2.ResourceClaim,
            names["ResourceClaim"],
            ClassicClaimStrategy(),
            status=ClassicClaimStatusStrategy(),
            columns=CLAIM_COLUMNS,
            cells=claim_cells,
        ),
        classic_kind(
            v1alpha2.ResourceClaimTemplate,
            names["ResourceClaimTemplate"],
            ClassicTemplateStrategy(),
            columns=TEMPLATE_COLUMNS,
            cells=template_cells,
        ),
        context_definition(names["PodSchedulingContext"], "PodScheduling" if first else "PodSchedulingContext"),
        *structured,
    )


def context_definition(versions: Versions, kind: str = "PodSchedulingContext") -> AnyDefinition:
    """Return the negotiation about a pod, under the name that a release gives it."""
    return classic_kind(
        v1alpha2.PodSchedulingContext,
        versions,
        ContextStrategy(),
        status=ContextStatusStrategy(),
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


# Between v1alpha1 (1.26) and v1alpha2 (1.27 to 1.30): one resource handle or several, and PodScheduling's new name.
#
# A handle of v1alpha1 is the data for the one driver that the claim's status names (docs/spec/api.md §7.1).

K = TypeVar("K", bound=KubeStruct)


def claim_to_hub(claim: v1alpha1.ResourceClaim) -> v1alpha2.ResourceClaim:
    """Return the same claim; its handle becomes the handle of the driver that the status names."""
    status = claim.status
    allocation: v1alpha2.AllocationResult | None = None
    if status.allocation is not None:
        handle = status.allocation.resource_handle
        allocation = v1alpha2.AllocationResult(
            resource_handles=(v1alpha2.ResourceHandle(driver_name=status.driver_name, data=handle),) if handle else (),
            available_on_nodes=status.allocation.available_on_nodes,
            shareable=status.allocation.shareable,
        )
    return v1alpha2.ResourceClaim(
        metadata=claim.metadata,
        spec=reshape(claim.spec, v1alpha2.ResourceClaimSpec),
        status=replace(
            reshape(replace(status, allocation=None), v1alpha2.ResourceClaimStatus),
            allocation=allocation,
        ),
    )


def claim_from_hub(claim: v1alpha2.ResourceClaim) -> v1alpha1.ResourceClaim:
    """Return the same claim with one handle; v1alpha1 never had more."""
    status = claim.status
    allocation: v1alpha1.AllocationResult | None = None
    if status.allocation is not None:
        handles = status.allocation.resource_handles
        allocation = v1alpha1.AllocationResult(
            resource_handle=handles[0].data if handles else "",
            available_on_nodes=status.allocation.available_on_nodes,
            shareable=status.allocation.shareable,
        )
    return v1alpha1.ResourceClaim(
        metadata=claim.metadata,
        spec=reshape(claim.spec, v1alpha1.ResourceClaimSpec),
        status=replace(
            reshape(replace(status, allocation=None), v1alpha1.ResourceClaimStatus),
            allocation=allocation,
        ),
    )


def template_to_hub(template: v1alpha1.ResourceClaimTemplate) -> v1alpha2.ResourceClaimTemplate:
    """Convert a template to its stored form."""
    return _renamed(template, v1alpha2.ResourceClaimTemplate)


def template_from_hub(template: v1alpha2.ResourceClaimTemplate) -> v1alpha1.ResourceClaimTemplate:
    """Convert a template from its stored form."""
    return _renamed(template, v1alpha1.ResourceClaimTemplate)


def class_to_hub(resource_class: v1alpha1.ResourceClass) -> v1alpha2.ResourceClass:
    """Convert a class to its stored form."""
    return _renamed(resource_class, v1alpha2.ResourceClass)


def class_from_hub(resource_class: v1alpha2.ResourceClass) -> v1alpha1.ResourceClass:
    """Convert a class from its stored form."""
    return _renamed(resource_class, v1alpha1.ResourceClass)


def context_to_hub(scheduling: v1alpha1.PodScheduling) -> v1alpha2.PodSchedulingContext:
    """Return the same object under its later name."""
    return _renamed(scheduling, v1alpha2.PodSchedulingContext)


def context_from_hub(context: v1alpha2.PodSchedulingContext) -> v1alpha1.PodScheduling:
    """Return the same object under its earlier name."""
    return _renamed(context, v1alpha1.PodScheduling)


def _renamed(obj: KubeStruct, kind: type[K]) -> K:
    """``obj`` as the struct of another version; neither carries kind and apiVersion inside the system."""
    return replace(reshape(obj, kind), kind="", api_version="")


_V1ALPHA1: Final = {
    "ResourceClass": _only("v1alpha1", v1alpha1.ResourceClass, class_to_hub, class_from_hub),
    "ResourceClaim": _only("v1alpha1", v1alpha1.ResourceClaim, claim_to_hub, claim_from_hub),
    "ResourceClaimTemplate": _only("v1alpha1", v1alpha1.ResourceClaimTemplate, template_to_hub, template_from_hub),
    "PodSchedulingContext": _only("v1alpha1", v1alpha1.PodScheduling, context_to_hub, context_from_hub),
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
    """Return the claim's state in words, joined by commas: «allocated,reserved»."""
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
    """Return the cells of a ResourceClass."""
    metadata = resource_class.metadata
    return [metadata.name, resource_class.driver_name, age(metadata.creation_timestamp, now)]


def claim_cells(claim: v1alpha2.ResourceClaim, now: float) -> list[Any]:
    """Return the cells of a ResourceClaim."""
    return [
        claim.metadata.name,
        claim.spec.resource_class_name,
        claim.spec.allocation_mode,
        claim_state(claim),
        age(claim.metadata.creation_timestamp, now),
    ]


def template_cells(template: v1alpha2.ResourceClaimTemplate, now: float) -> list[Any]:
    """Return the cells of a ResourceClaimTemplate."""
    metadata, spec = template.metadata, template.spec.spec
    return [metadata.name, spec.resource_class_name, spec.allocation_mode, age(metadata.creation_timestamp, now)]


def context_cells(context: v1alpha2.PodSchedulingContext, now: float) -> list[Any]:
    """Return the cells of a PodScheduling or PodSchedulingContext."""
    metadata = context.metadata
    return [metadata.name, context.spec.selected_node, age(metadata.creation_timestamp, now)]


WAIT: str = "WaitForFirstConsumer"


def _defaulted(spec: v1alpha2.ResourceClaimSpec) -> v1alpha2.ResourceClaimSpec:
    return spec if spec.allocation_mode else replace(spec, allocation_mode=WAIT)


class ClassicClaimStrategy(Strategy[v1alpha2.ResourceClaim]):
    """The claim itself: its spec never changes, its status comes through its sub-resource."""

    metadata_checks = 2

    def default(self, obj: v1alpha2.ResourceClaim, context: RequestContext) -> v1alpha2.ResourceClaim:
        """Wait for the first consumer, unless the author wants the claim allocated at once."""
        return replace(obj, spec=_defaulted(obj.spec))

    def prepare_create(self, obj: v1alpha2.ResourceClaim, context: RequestContext) -> v1alpha2.ResourceClaim:
        """Empty the status: its sub-resource alone writes it."""
        return replace(obj, status=v1alpha2.ResourceClaimStatus())

    def validate_create(self, obj: v1alpha2.ResourceClaim, context: RequestContext) -> ErrorList:
        """Check all rules of a new claim."""
        return validation.validate_claim(obj)

    def prepare_update(
        self, new: v1alpha2.ResourceClaim, old: v1alpha2.ResourceClaim, context: RequestContext
    ) -> v1alpha2.ResourceClaim:
        """Keep the stored status: its sub-resource alone changes it."""
        return replace(new, status=old.status)

    def validate_update(
        self, new: v1alpha2.ResourceClaim, old: v1alpha2.ResourceClaim, context: RequestContext
    ) -> ErrorList:
        """Refuse a changed spec."""
        return validation.validate_claim_update(new, old)


class ClassicClaimStatusStrategy(StatusStrategy[v1alpha2.ResourceClaim]):
    """The claim's status: the driver's allocation, its consumers, and the request to deallocate it."""

    def __init__(self) -> None:
        super().__init__(lambda claim: replace(claim, spec=_defaulted(claim.spec)))

    def prepare_update(
        self, new: v1alpha2.ResourceClaim, old: v1alpha2.ResourceClaim, context: RequestContext
    ) -> v1alpha2.ResourceClaim:
        """Keep the spec; since 1.30 the metadata too."""
        kept = replace(new, spec=old.spec)
        if context.gates.has(classic.STATUS_KEEPS_METADATA):
            return replace(kept, metadata=kept_metadata(new.metadata, old.metadata))
        return kept

    def validate_update(
        self, new: v1alpha2.ResourceClaim, old: v1alpha2.ResourceClaim, context: RequestContext
    ) -> ErrorList:
        """Check all rules of a status."""
        return validation.validate_claim_status(new, old, context)


class ClassicTemplateStrategy(Strategy[v1alpha2.ResourceClaimTemplate]):
    """A template: its spec never changes."""

    metadata_checks = 2

    def default(self, obj: v1alpha2.ResourceClaimTemplate, context: RequestContext) -> v1alpha2.ResourceClaimTemplate:
        """Apply the defaults of claims."""
        return replace(obj, spec=replace(obj.spec, spec=_defaulted(obj.spec.spec)))

    def validate_create(self, obj: v1alpha2.ResourceClaimTemplate, context: RequestContext) -> ErrorList:
        """Check all rules of a new template."""
        return validation.validate_template(obj)

    def validate_update(
        self, new: v1alpha2.ResourceClaimTemplate, old: v1alpha2.ResourceClaimTemplate, context: RequestContext
    ) -> ErrorList:
        """Refuse a changed spec."""
        return validation.validate_template_update(new, old)


class ClassicClassStrategy(Strategy[v1alpha2.ResourceClass]):
    """A class, freely changeable."""

    def validate_create(self, obj: v1alpha2.ResourceClass, context: RequestContext) -> ErrorList:
        """Check all rules of a class."""
        return validation.validate_class(obj)

    def validate_update(
        self, new: v1alpha2.ResourceClass, old: v1alpha2.ResourceClass, context: RequestContext
    ) -> ErrorList:
        """Apply the rules of a new object."""
        return validation.validate_class(new)


class ContextStrategy(Strategy[v1alpha2.PodSchedulingContext]):
    """The scheduler's side of the negotiation about one pod."""

    def prepare_create(
        self, obj: v1alpha2.PodSchedulingContext, context: RequestContext
    ) -> v1alpha2.PodSchedulingContext:
        """Empty the status: its sub-resource alone writes it."""
        return replace(obj, status=v1alpha2.PodSchedulingContextStatus())

    def validate_create(self, obj: v1alpha2.PodSchedulingContext, context: RequestContext) -> ErrorList:
        """Check all rules of a new one."""
        return validation.validate_context(obj)

    def prepare_update(
        self, new: v1alpha2.PodSchedulingContext, old: v1alpha2.PodSchedulingContext, context: RequestContext
    ) -> v1alpha2.PodSchedulingContext:
        """Keep the stored status: its sub-resource alone changes it."""
        return replace(new, status=old.status)

    def validate_update(
        self, new: v1alpha2.PodSchedulingContext, old: v1alpha2.PodSchedulingContext, context: RequestContext
    ) -> ErrorList:
        """Apply the rules of a new object."""
        return validation.validate_context(new)


class ContextStatusStrategy(StatusStrategy[v1alpha2.PodSchedulingContext]):
    """The drivers' side of the negotiation."""

    def prepare_update(
        self, new: v1alpha2.PodSchedulingContext, old: v1alpha2.PodSchedulingContext, context: RequestContext
    ) -> v1alpha2.PodSchedulingContext:
        """Keep the spec; since 1.30 the metadata too."""
        kept = replace(new, spec=old.spec)
        if context.gates.has(classic.STATUS_KEEPS_METADATA):
            return replace(kept, metadata=kept_metadata(new.metadata, old.metadata))
        return kept

    def validate_update(
        self, new: v1alpha2.PodSchedulingContext, old: v1alpha2.PodSchedulingContext, context: RequestContext
    ) -> ErrorList:
        """Check all rules of the status."""
        return validation.validate_context_status(new)
