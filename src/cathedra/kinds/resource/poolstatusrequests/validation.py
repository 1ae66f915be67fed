"""Rules of pool status requests and their answers (docs/spec/api.md §3.10).

Nearly all of them are tags, enforced since the kind exists (k8s.io/api, resource/v1alpha3/types.go).
"""

from __future__ import annotations

from typing import Final

from cathedra.api.core.resource_v1alpha3 import ResourcePoolStatusRequest
from cathedra.api.field import ErrorList, FieldPath
from cathedra.kinds.conditions import validate_conditions
from cathedra.kinds.declarative.formats import (
    Check,
    forbidden,
    fully_qualified_name,
    long_name,
    long_name_caseless,
    max_bytes,
    maximum,
    minimum,
    pool_name,
)
from cathedra.kinds.declarative.tags import FieldTags, TypeTags
from cathedra.kinds.declarative.walking import declared_errors
from cathedra.kinds.resource.claims.validation import IMMUTABLE
from cathedra.releases import FeatureGates, behaviours

__all__ = ["validate_pool_status", "validate_pool_status_request"]

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
        # The rule cannot tell 0 from none.
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
    """What is wrong with a question about pools, which never changes."""
    return _declared(new, old, gates)


def validate_pool_status(
    new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, gates: FeatureGates
) -> ErrorList:
    """What is wrong with an answer; one that was given stays."""
    errors = ErrorList()
    if old.status is None and new.status is not None:
        validate_conditions(errors, _STATUS.child("conditions"), new.status.conditions)
    elif new.status != old.status:
        errors.invalid(_STATUS, new.status, IMMUTABLE)
    errors.extend(_declared(new, old, gates))
    return errors
