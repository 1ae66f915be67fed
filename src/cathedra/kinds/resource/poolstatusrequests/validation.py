"""Rules of pool status requests and their answers (docs/spec/api.md §3.10)."""

from __future__ import annotations

from typing import Final

from cathedra.api import formats
from cathedra.api.core import resource_v1alpha3
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check, longer_than
from cathedra.kinds.conditions import validate_conditions
from cathedra.kinds.declarative.formats import pool_name
from cathedra.kinds.resource.claims.validation import IMMUTABLE

__all__ = ["validate_pool_status", "validate_pool_status_request", "validate_pool_status_request_update"]

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")
MAX_POOL_CONDITIONS: Final = 10
MAX_POOLS: Final = 1000
MAX_LIMIT: Final = 1000
MAX_POOL_ERROR: Final = 256
MAX_SUMMARY: Final = 32


def validate_pool_status_request(request: resource_v1alpha3.ResourcePoolStatusRequest) -> ErrorList:
    """What is wrong with a question about pools."""
    errors = ErrorList()
    spec = request.spec
    _pool_driver(errors, _SPEC.child("driver"), spec.driver)
    if spec.pool_name is not None:
        pool_name(errors, _SPEC.child("poolName"), spec.pool_name)
    limit = _SPEC.child("limit")
    if spec.limit is None:
        errors.required(limit)
    elif spec.limit < 1:
        errors.invalid(limit, spec.limit, "must be greater than or equal to 1")
    elif spec.limit > MAX_LIMIT:
        errors.invalid(limit, spec.limit, f"must be less than or equal to {MAX_LIMIT}")
    return errors


def _pool_driver(errors: ErrorList, path: FieldPath, driver: str) -> None:
    if not driver:
        errors.required(path)
        return
    check(errors, path, driver, formats.in_bytes(formats.dns_subdomain_ignoring_case))


def validate_pool_status_request_update(
    new: resource_v1alpha3.ResourcePoolStatusRequest, old: resource_v1alpha3.ResourcePoolStatusRequest
) -> ErrorList:
    """The question is immutable."""
    errors = ErrorList()
    if new.spec != old.spec:
        errors.invalid(_SPEC, None, IMMUTABLE)
    return errors


def validate_pool_status(
    new: resource_v1alpha3.ResourcePoolStatusRequest, old: resource_v1alpha3.ResourcePoolStatusRequest
) -> ErrorList:
    """What is wrong with an answer; one that was given stays."""
    errors = ErrorList()
    status, before = new.status, old.status
    if status == before:
        return errors
    if before is not None:
        errors.invalid(_STATUS, status, IMMUTABLE)
    if status is None:
        return errors
    if before is None or status.pool_count != before.pool_count:
        _pool_count(errors, status)
    if before is None or status.pools != before.pools:
        _pools(errors, status)
    if before is None or status.conditions != before.conditions:
        _pool_conditions(errors, status)
    return errors


def _pool_count(errors: ErrorList, status: resource_v1alpha3.ResourcePoolStatusRequestStatus) -> None:
    count = _STATUS.child("poolCount")
    if status.pool_count is None:
        errors.required(count)
    elif status.pool_count < 0:
        errors.invalid(count, status.pool_count, "must be greater than or equal to 0")


def _pools(errors: ErrorList, status: resource_v1alpha3.ResourcePoolStatusRequestStatus) -> None:
    pools = _STATUS.child("pools")
    if len(status.pools) > MAX_POOLS:
        errors.too_many(pools, len(status.pools), MAX_POOLS)
    else:
        for position, pool in enumerate(status.pools):
            _pool_status(errors, pools.index(position), pool)


def _pool_conditions(errors: ErrorList, status: resource_v1alpha3.ResourcePoolStatusRequestStatus) -> None:
    conditions = _STATUS.child("conditions")
    if len(status.conditions) > MAX_POOL_CONDITIONS:
        errors.too_many(conditions, len(status.conditions), MAX_POOL_CONDITIONS)
    validate_conditions(errors, conditions, status.conditions)
    seen: set[str] = set()
    for position, condition in enumerate(status.conditions):
        if condition.type in seen:
            errors.duplicate(conditions.index(position), condition)
        seen.add(condition.type)


def _pool_status(errors: ErrorList, path: FieldPath, pool: resource_v1alpha3.PoolStatus) -> None:
    _pool_driver(errors, path.child("driver"), pool.driver)
    if not pool.pool_name:
        errors.required(path.child("poolName"))
    else:
        pool_name(errors, path.child("poolName"), pool.pool_name)
    if pool.generation == 0:
        # The rule cannot tell 0 from none.
        errors.required(path.child("generation"))
    elif pool.generation < 0:
        errors.invalid(path.child("generation"), pool.generation, "must be greater than or equal to 0")
    for name, number, least in (
        ("resourceSliceCount", pool.resource_slice_count, 1),
        ("totalDevices", pool.total_devices, 0),
        ("allocatedDevices", pool.allocated_devices, 0),
        ("availableDevices", pool.available_devices, 0),
        ("unavailableDevices", pool.unavailable_devices, 0),
    ):
        if number is not None and number < least:
            errors.invalid(path.child(name), number, f"must be greater than or equal to {least}")
    if pool.node_name is not None:
        check(errors, path.child("nodeName"), pool.node_name, formats.dns_subdomain)
    if pool.validation_error is not None and longer_than(pool.validation_error, MAX_POOL_ERROR):
        errors.too_long(path.child("validationError"), MAX_POOL_ERROR)
    _summary(errors, path.child("partitionSummary"), pool.partition_summary)


def _summary(errors: ErrorList, path: FieldPath, summary: tuple[resource_v1alpha3.PartitionTypeStatus, ...]) -> None:
    if len(summary) > MAX_SUMMARY:
        errors.too_many(path, len(summary), MAX_SUMMARY)
        return
    seen: set[tuple[str, str]] = set()
    for position, entry in enumerate(summary):
        key = (entry.attribute, entry.type)
        if key in seen:
            errors.duplicate(path.index(position), {"attribute": entry.attribute, "type": entry.type})
        seen.add(key)
        for name, number in (("total", entry.total), ("allocatable", entry.allocatable)):
            if number is not None and number < 0:
                errors.invalid(path.index(position).child(name), number, "must be greater than or equal to 0")
