"""Defaults, disabled fields, strategies and definition of pool status requests."""

from __future__ import annotations

from cathedra.api.core import resource_v1alpha3
from cathedra.api.core.resource_v1alpha3 import ResourcePoolStatusRequest, ResourcePoolStatusRequestSpec
from cathedra.api.field import ErrorList
from cathedra.api.struct import replace
from cathedra.kinds.definition import RequestContext, ResourceDefinition, Strategy, VersionDefinition
from cathedra.kinds.resource.poolstatusrequests.columns import POOL_STATUS_COLUMNS, pool_status_cells
from cathedra.kinds.resource.poolstatusrequests.validation import (
    validate_pool_status,
    validate_pool_status_request,
)
from cathedra.kinds.resource.versions import GROUP
from cathedra.kinds.strategies import kept_metadata
from cathedra.releases import FeatureGates

__all__ = [
    "PoolStatusRequestStatusStrategy",
    "PoolStatusRequestStrategy",
    "default_pool_status_request",
    "enabled_pool_status_spec",
    "pool_status_request_definition",
]


def default_pool_status_request(
    request: resource_v1alpha3.ResourcePoolStatusRequest,
) -> resource_v1alpha3.ResourcePoolStatusRequest:
    """A question that wants at most a hundred pools."""
    if request.spec.limit is not None:
        return request
    return replace(request, spec=replace(request.spec, limit=100))


def enabled_pool_status_spec(
    spec: ResourcePoolStatusRequestSpec, old: ResourcePoolStatusRequestSpec | None, gates: FeatureGates
) -> ResourcePoolStatusRequestSpec:
    """The question without what is not enabled."""
    if gates["DRAPartitionableDevicesType"] or (old is not None and old.default_partition_type_attribute is not None):
        return spec
    return replace(spec, default_partition_type_attribute=None)


class PoolStatusRequestStrategy(Strategy[ResourcePoolStatusRequest]):
    """A question about pools, never changed."""

    allow_unconditional_update = False

    def default(self, obj: ResourcePoolStatusRequest, context: RequestContext) -> ResourcePoolStatusRequest:
        """Limit the answer to a hundred pools."""
        return default_pool_status_request(obj)

    def prepare_create(self, obj: ResourcePoolStatusRequest, context: RequestContext) -> ResourcePoolStatusRequest:
        """Empty the status, drop what closed gates forbid."""
        return replace(obj, spec=enabled_pool_status_spec(obj.spec, None, context.gates), status=None)

    def validate_create(self, obj: ResourcePoolStatusRequest, context: RequestContext) -> ErrorList:
        """All rules of a question."""
        return validate_pool_status_request(obj, None, context.gates)

    def prepare_update(
        self, new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, context: RequestContext
    ) -> ResourcePoolStatusRequest:
        """Keep the status."""
        return replace(new, spec=enabled_pool_status_spec(new.spec, old.spec, context.gates), status=old.status)

    def validate_update(
        self, new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, context: RequestContext
    ) -> ErrorList:
        """The question is immutable."""
        return validate_pool_status_request(new, old, context.gates)


class PoolStatusRequestStatusStrategy(Strategy[ResourcePoolStatusRequest]):
    """The answer: given once, never changed."""

    reset_fields = ("spec", "metadata")

    allow_unconditional_update = False

    def default(self, obj: ResourcePoolStatusRequest, context: RequestContext) -> ResourcePoolStatusRequest:
        """Limit the answer to a hundred pools."""
        return default_pool_status_request(obj)

    def prepare_update(
        self, new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, context: RequestContext
    ) -> ResourcePoolStatusRequest:
        """Keep spec and metadata."""
        return replace(new, metadata=kept_metadata(new.metadata, old.metadata), spec=old.spec)

    def validate_update(
        self, new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, context: RequestContext
    ) -> ErrorList:
        """All rules of an answer."""
        return validate_pool_status(new, old, context.gates)


def pool_status_request_definition(
    gates: FeatureGates,
) -> ResourceDefinition[resource_v1alpha3.ResourcePoolStatusRequest]:
    return ResourceDefinition(
        group=GROUP,
        kind="ResourcePoolStatusRequest",
        plural="resourcepoolstatusrequests",
        singular="resourcepoolstatusrequest",
        namespaced=False,
        type=resource_v1alpha3.ResourcePoolStatusRequest,
        versions=(VersionDefinition("v1alpha3", resource_v1alpha3.ResourcePoolStatusRequest, served_by_default=False),),
        strategy=PoolStatusRequestStrategy(),
        subresources={"status": PoolStatusRequestStatusStrategy()},
        columns=POOL_STATUS_COLUMNS,
        cells=pool_status_cells,
    )
