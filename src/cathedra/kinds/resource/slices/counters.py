"""Rules of counters: what sets hold, and what devices draw from them (docs/spec/api.md §1.7, §3.6, §D).

Until 1.34 a set lay in the same slice as its devices, so references could be checked and limits held for the slice as a
whole; since 1.35 sets have slices of their own and each set and each consumption has its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cathedra.api import formats, resource
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check, unique
from cathedra.kinds.resource.names import validate_qualified_name
from cathedra.kinds.resource.slices.policies import validate_policy
from cathedra.releases import FeatureGates, behaviours

MAX_SETS: Final = 8
MAX_CONSUMPTIONS: Final = 2
MAX_GROUPS: Final = 2
MAX_COUNTERS: Final = 32
MAX_COUNTERS_OF_SLICE: Final = 1024


def validate_counter_sets(
    errors: ErrorList, path: FieldPath, sets: Sequence[resource.CounterSet], gates: FeatureGates
) -> None:
    """The sets of a slice."""
    newer = gates.has(behaviours.COUNTER_LISTS_LIMITED)
    if newer and len(sets) > MAX_SETS:
        # The limit ends validation of the list: each of the sets could otherwise add 32 errors to the Status.
        errors.too_many(path, len(sets), MAX_SETS)
        return
    # Until 1.34 the number of counters in all sets was limited instead of the number of sets.
    total = sum(len(counters.counters) for counters in sets)
    if not newer and total > MAX_COUNTERS:
        errors.invalid(path, total, f"the total number of counters must not exceed {MAX_COUNTERS}")
    for position, counters in enumerate(sets):
        where = path.index(position)
        _set_name(errors, where.child("name"), counters.name)
        _counters(errors, where.child("counters"), counters.counters, gates)
        # Sorted, because the order of Go's maps is random and the recorded answers compare errors in order.
        for name, counter in sorted(counters.counters.items()):
            _shared(errors, where.child("counters").key(name), counter, gates)
    unique(errors, path, [counters.name for counters in sets])


def validate_consumptions(
    errors: ErrorList, path: FieldPath, consumptions: Sequence[resource.DeviceCounterConsumption], gates: FeatureGates
) -> None:
    """Validate the counters that one device consumes."""
    if gates.has(behaviours.COUNTER_LISTS_LIMITED) and len(consumptions) > MAX_CONSUMPTIONS:
        errors.too_many(path, len(consumptions), MAX_CONSUMPTIONS)
        return
    for position, consumption in enumerate(consumptions):
        where = path.index(position)
        _set_name(errors, where.child("counterSet"), consumption.counter_set)
        _counters(errors, where.child("counters"), consumption.counters, gates)
        for name, counter in sorted(consumption.counters.items()):
            _taken(errors, where.child("counters").key(name), counter, gates)
        _groups(errors, where.child("compatibilityGroups"), consumption.compatibility_groups)
    unique(errors, path, [consumption.counter_set for consumption in consumptions])


def validate_consumed(errors: ErrorList, path: FieldPath, consumed: Sequence[resource.CounterSetConsumption]) -> None:
    """Validate what an allocation takes of counters, which is at most what a device can."""
    if len(consumed) > MAX_CONSUMPTIONS:
        errors.too_many(path, len(consumed), MAX_CONSUMPTIONS)
        return
    for position, one in enumerate(consumed):
        where = path.index(position)
        _set_name(errors, where.child("counterSet"), one.counter_set)
        _names(errors, where.child("counters"), one.counters, at_map=True)
    unique(errors, path, [one.counter_set for one in consumed])


def _shared(errors: ErrorList, path: FieldPath, counter: resource.Counter, gates: FeatureGates) -> None:
    """Validate a counter of a set: its amount, and how requests may take of it."""
    if counter.value is None:
        errors.required(path.child("value"))
    if counter.value_from is not None:
        errors.forbidden(path.child("valueFrom"), "may only be set in `consumesCounters`")
    if counter.request_policy is not None:
        validate_policy(errors, path.child("requestPolicy"), counter.request_policy, counter.amount, gates)


def _taken(errors: ErrorList, path: FieldPath, counter: resource.Counter, gates: FeatureGates) -> None:
    """Validate what a device takes of a counter: a fixed amount, or that of a requested capacity."""
    if counter.request_policy is not None:
        errors.forbidden(path.child("requestPolicy"), "may only be set in `sharedCounters`")
    given = [name for name, value in (("value", counter.value), ("valueFrom", counter.value_from)) if value is not None]
    if len(given) != 1:
        shown = ", ".join(f"`{name}`" for name in given)
        errors.invalid(path, f"{{{shown}}}" if given else "", "must specify exactly one of: `value`, `valueFrom`")
    if counter.value_from is not None:
        where = path.child("valueFrom", "capacityName")
        if not counter.value_from.capacity_name:
            errors.required(where)
        else:
            validate_qualified_name(errors, where, counter.value_from.capacity_name, gates)


def _set_name(errors: ErrorList, path: FieldPath, name: str) -> None:
    if not name:
        errors.required(path)
    else:
        check(errors, path, name, formats.dns_label)


def _counters(
    errors: ErrorList, path: FieldPath, counters: Mapping[str, resource.Counter], gates: FeatureGates
) -> None:
    _names(errors, path, counters, at_map=gates.has(behaviours.COUNTER_NAME_ERRORS_AT_MAP))


def _names(errors: ErrorList, path: FieldPath, counters: Mapping[str, object], *, at_map: bool) -> None:
    """Named counters: at least one, at most 32."""
    if not counters:
        errors.required(path)
        return
    if len(counters) > MAX_COUNTERS:
        errors.too_many(path, len(counters), MAX_COUNTERS)
        return
    for name in sorted(counters):
        check(errors, path if at_map else path.key(name), name, formats.dns_label)


def _groups(errors: ErrorList, path: FieldPath, groups: tuple[str, ...]) -> None:
    if len(groups) > MAX_GROUPS:
        errors.too_many(path, len(groups), MAX_GROUPS)
        return
    for position, group in enumerate(groups):
        check(errors, path.index(position), group, formats.dns_label)
    unique(errors, path, groups)


def validate_references(errors: ErrorList, path: FieldPath, spec: resource.ResourceSliceSpec) -> None:
    """Up to 1.34: devices draw from counters of their own slice, and not from too many."""
    known = {counters.name: counters.counters for counters in spec.shared_counters}
    total = 0
    for position, device in enumerate(spec.devices):
        drawn = sum(len(consumption.counters) for consumption in device.consumes_counters)
        total += drawn
        if drawn > MAX_COUNTERS:
            errors.invalid(path.index(position), drawn, f"the total number of counters must not exceed {MAX_COUNTERS}")
        for number, consumption in enumerate(device.consumes_counters):
            where = path.index(position).child("consumesCounters").index(number)
            counters = known.get(consumption.counter_set)
            # The counters of an unknown set are unknown, too. Kubernetes reports the set alone.
            if counters is None:
                text = "must reference a counterSet defined in the ResourceSlice sharedCounters"
                errors.invalid(where.child("counterSet"), consumption.counter_set, text)
                continue
            for name in sorted(consumption.counters):
                if name not in counters:
                    text = "must reference a counter defined in the ResourceSlice sharedCounters"
                    errors.invalid(where.child("counters"), name, text)
    if total > MAX_COUNTERS_OF_SLICE:
        errors.invalid(path, total, f"the total number of counters must not exceed {MAX_COUNTERS_OF_SLICE}")
