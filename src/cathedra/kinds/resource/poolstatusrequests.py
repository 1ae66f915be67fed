"""ResourcePoolStatusRequest: a request for the state of pools, and its response (docs/spec/api.md §3.10).

Nearly all rules are declared by tags, which Kubernetes enforces since the kind exists (k8s.io/api,
resource/v1alpha3/types.go).
"""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import resource_v1alpha3
from cathedra.api.core.resource_v1alpha3 import ResourcePoolStatusRequest, ResourcePoolStatusRequestSpec
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import replace
from cathedra.kinds.columns import NAME, age
from cathedra.kinds.conditions import validate_conditions
from cathedra.kinds.declarative import (
    Check,
    FieldTags,
    TypeTags,
    declared_errors,
    forbidden,
    fully_qualified_name,
    long_name,
    long_name_caseless,
    max_bytes,
    maximum,
    minimum,
    pool_name,
)
from cathedra.kinds.definition import Column, RequestContext, ResourceDefinition, Strategy, VersionDefinition
from cathedra.kinds.resource.claims.validation import IMMUTABLE
from cathedra.kinds.resource.versions import GROUP
from cathedra.kinds.strategies import kept_metadata
from cathedra.releases import FeatureGates, behaviours


def default_pool_status_request(
    request: resource_v1alpha3.ResourcePoolStatusRequest,
) -> resource_v1alpha3.ResourcePoolStatusRequest:
    """Return the object with its defaults: a question that wants at most a hundred pools."""
    if request.spec.limit is not None:
        return request
    return replace(request, spec=replace(request.spec, limit=100))


def enabled_pool_status_spec(
    spec: ResourcePoolStatusRequestSpec, old: ResourcePoolStatusRequestSpec | None, gates: FeatureGates
) -> ResourcePoolStatusRequestSpec:
    """Return the request without disabled fields."""
    if gates["DRAPartitionableDevicesType"] or (old is not None and old.default_partition_type_attribute is not None):
        return spec
    # Dropped and not refused: an older client library may send the field to a cluster that does not know it yet.
    return replace(spec, default_partition_type_attribute=None)


class PoolStatusRequestStrategy(Strategy[ResourcePoolStatusRequest]):
    """A question about pools, never changed."""

    # An update must name the version that it read. The response is written once, and a lost update would replace it.
    allow_unconditional_update = False

    def default(self, obj: ResourcePoolStatusRequest, context: RequestContext) -> ResourcePoolStatusRequest:
        """Limit the answer to a hundred pools."""
        return default_pool_status_request(obj)

    def prepare_create(self, obj: ResourcePoolStatusRequest, context: RequestContext) -> ResourcePoolStatusRequest:
        """Empty the status, drop what closed gates forbid."""
        return replace(obj, spec=enabled_pool_status_spec(obj.spec, None, context.gates), status=None)

    def validate_create(self, obj: ResourcePoolStatusRequest, context: RequestContext) -> ErrorList:
        """Check all rules of a question."""
        return validate_pool_status_request(obj, None, context.gates)

    def prepare_update(
        self, new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, context: RequestContext
    ) -> ResourcePoolStatusRequest:
        """Keep the stored status; drop fields of the spec behind closed gates."""
        return replace(new, spec=enabled_pool_status_spec(new.spec, old.spec, context.gates), status=old.status)

    def validate_update(
        self, new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, context: RequestContext
    ) -> ErrorList:
        """Refuse a changed question."""
        return validate_pool_status_request(new, old, context.gates)


class PoolStatusRequestStatusStrategy(Strategy[ResourcePoolStatusRequest]):
    """The answer: given once, never changed."""

    reset_fields = ("spec", "metadata")

    # Two controllers may compute the same response. The second one gets a conflict instead of overwriting the first.
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
        """Check all rules of an answer."""
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


POOL_STATUS_COLUMNS: Final = (
    NAME,
    Column("Driver", description="The driver of the pools."),
    Column("Total", description="Devices in the pools found."),
    Column("Available", description="Devices free to be allocated."),
    Column("Allocated", description="Devices held by claims."),
    Column("Unavailable", description="Devices that cannot be allocated now."),
    Column("Errors", description="Pools whose slices are not consistent."),
    Column("Pools", type="integer", description="Pools that match."),
    Column("Status", description="Whether the question has been answered."),
    Column("Completed", description="How long ago it was answered."),
)


def pool_status_cells(request: resource_v1alpha3.ResourcePoolStatusRequest, now: float) -> list[Any]:
    """Return the cells of a ResourcePoolStatusRequest: dashes until there is an answer."""
    status = request.status
    numbers: list[str] = ["-"] * 5
    state, completed, count = "Pending", "<none>", 0
    if status is not None:
        count = status.pool_count or 0
        numbers = _sums(status.pools)
        for condition in status.conditions:
            if condition.status != "True" or condition.type not in ("Complete", "Failed"):
                continue
            state = condition.type
            completed = age(condition.last_transition_time, now)
            # ``spec.limit`` cuts the list off. The column shows it, or the sums beside it would pass for the whole
            # cluster.
            if condition.type == "Complete" and count > len(status.pools):
                state = f"Complete ({len(status.pools)}/{count} pools)"
    return [request.metadata.name, request.spec.driver, *numbers, count, state, completed]


def _sums(pools: tuple[resource_v1alpha3.PoolStatus, ...]) -> list[str]:
    return [
        str(sum(pool.total_devices or 0 for pool in pools)),
        str(sum(pool.available_devices or 0 for pool in pools)),
        str(sum(pool.allocated_devices or 0 for pool in pools)),
        str(sum(pool.unavailable_devices or 0 for pool in pools)),
        str(sum(1 for pool in pools if pool.validation_error)),
    ]


_STATUS: Final = FieldPath("status")


def _optional(*checks: Check) -> FieldTags:
    return FieldTags(checks=checks, stable=True)


def _required(*checks: Check) -> FieldTags:
    return FieldTags(required=True, checks=checks, stable=True)


_COUNT: Final = _required(minimum(0))
_PARTITION: Final = TypeTags(
    {"attribute": _required(), "type": _required(), "total": _COUNT, "allocatable": _COUNT},
)
_CAPACITY: Final = TypeTags(dict.fromkeys(("name", "total", "consumed", "available"), _required()))
_SHAREABLE: Final = TypeTags(
    {
        "fullyAvailableDevices": _COUNT,
        "partiallyAvailableDevices": _COUNT,
        "capacity": FieldTags(max_items=32, of=_CAPACITY, stable=True),
    }
)
_POOL: Final = TypeTags(
    {
        "driver": _required(long_name_caseless),
        "poolName": _required(pool_name),
        # The rule cannot distinguish 0 from an absent value.
        "generation": _COUNT,
        "resourceSliceCount": _optional(minimum(1)),
        "totalDevices": _optional(minimum(0)),
        "allocatedDevices": _optional(minimum(0)),
        "availableDevices": _optional(minimum(0)),
        "unavailableDevices": _optional(minimum(0)),
        "nodeName": _optional(long_name),
        "validationError": _optional(max_bytes(256)),
        "partitionSummary": FieldTags(max_items=32, unique=("attribute", "type"), of=_PARTITION, stable=True),
        "shareableSummary": FieldTags(of=_SHAREABLE),
    }
)


def _tags(partition_type: Check, conditions: FieldTags) -> TypeTags:
    spec = TypeTags(
        {
            "driver": _required(long_name_caseless),
            "poolName": _optional(pool_name),
            "limit": _optional(minimum(1), maximum(1000)),
            "defaultPartitionTypeAttribute": _optional(partition_type),
        }
    )
    pools = FieldTags(max_items=1000, of=_POOL, stable=True)
    status = TypeTags({"poolCount": _COUNT, "pools": pools, "conditions": conditions})
    return TypeTags({"spec": FieldTags(immutable=True, of=spec, stable=True), "status": FieldTags(of=status)})


_TAGS_OF_136: Final = _tags(forbidden, FieldTags(max_items=10, unique=("type",), stable=True))
_CONDITIONS: Final = FieldTags(max_items=10, stable=True)
_TAGS: Final = _tags(fully_qualified_name, _CONDITIONS)
_TAGS_WITHOUT_TYPE: Final = _tags(forbidden, _CONDITIONS)


def _declared(new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest | None, gates: FeatureGates) -> ErrorList:
    tags = _TAGS if gates["DRAPartitionableDevicesType"] else _TAGS_WITHOUT_TYPE
    return declared_errors(tags if gates.has(behaviours.POOL_STATUS_COMPLETE) else _TAGS_OF_136, new, old, beta=True)


def validate_pool_status_request(
    new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest | None, gates: FeatureGates
) -> ErrorList:
    """Return the errors of a question about pools, which never changes."""
    return _declared(new, old, gates)


def validate_pool_status(
    new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, gates: FeatureGates
) -> ErrorList:
    """Return the errors of an answer; one that was given stays."""
    errors = ErrorList()
    if old.status is None and new.status is not None:
        validate_conditions(errors, _STATUS.child("conditions"), new.status.conditions, gates)
    # A client that saw the response may have acted on it. A new state needs a new request.
    elif new.status != old.status:
        errors.invalid(_STATUS, new.status, IMMUTABLE)
    errors.extend(_declared(new, old, gates))
    return errors
