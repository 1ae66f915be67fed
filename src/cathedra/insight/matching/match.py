"""`match`: a selector and all devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from cathedra.allocation import InvalidInput
from cathedra.allocation.supply.devices import DeviceRecord
from cathedra.api.resource import ResourceSlice
from cathedra.cel.values import text
from cathedra.insight.matching.expressions import DeviceExpression, compiled_expression, told
from cathedra.insight.matching.model import MatchCondition, MatchFailure, NearMiss, SelectorMatch
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.selectors.devices import KnownDevices

__all__ = ["match"]


def match(state: ClusterState, expression: str, *, driver: str = "") -> SelectorMatch:
    """Ask every device of a state; by choice those of one driver.

    Raises:
        InvalidInput: the expression does not compile or has no truth value, or there is no such driver.
    """
    devices = KnownDevices(state, driver).devices
    if driver and not devices:
        there = ", ".join(sorted({one.id[0] for one in KnownDevices(state).devices})) or "none"
        raise InvalidInput(f"there is no device of driver {driver!r} in {state.source}; there are {there}")
    selector = compiled_expression(expression, state.features)
    if selector.type not in ("bool", "any", "dyn"):
        raise InvalidInput(f"a selector has to be true or false, and this expression is of type {selector.type}")
    matched = [one for one in devices if _verdict(selector, one) is True]
    failed: dict[str, list[DeviceRecord]] = {}
    for one in devices:
        verdict = _verdict(selector, one)
        if isinstance(verdict, str):
            failed.setdefault(verdict, []).append(one)
    kept_out = [one for one in devices if _verdict(selector, one) is not True]
    return SelectorMatch(
        expression=expression,
        devices=len(devices),
        matched=tuple(map(str, matched)),
        unmatched=len(devices) - len(matched) - sum(map(len, failed.values())),
        failures=tuple(MatchFailure(error, tuple(map(str, ones))) for error, ones in sorted(failed.items())),
        conditions=tuple(_conditions(selector, devices)),
        near_misses=tuple(_near_misses(selector, kept_out)),
        cost=selector.max_cost,
        nodes=_by_node(state, matched),
        notes=state.notes_on(ResourceSlice),
    )


def _verdict(selector: DeviceExpression, device: DeviceRecord) -> bool | str:
    """True, false, or why neither."""
    outcome = selector.outcome(device)
    if outcome.error is not None:
        return outcome.error
    return outcome.value if isinstance(outcome.value, bool) else f"the value {text(outcome.value)} is no bool"


def _conditions(selector: DeviceExpression, devices: Iterable[DeviceRecord]) -> Iterator[MatchCondition]:
    devices = tuple(devices)
    parts = selector.conditions
    alone = [_only_one(parts, one) for one in devices]
    for part in parts:
        verdicts = [_verdict(part, one) for one in devices]
        met, unmet = verdicts.count(True), verdicts.count(False)
        yield MatchCondition(part.source, met, unmet, len(devices) - met - unmet, sum(one is part for one in alone))


def _only_one(parts: Iterable[DeviceExpression], device: DeviceRecord) -> DeviceExpression | None:
    """The one condition that the device does not meet; None if there are several, or none."""
    unmet = [part for part in parts if _verdict(part, device) is not True]
    return unmet[0] if len(unmet) == 1 else None


def _near_misses(selector: DeviceExpression, kept_out: Iterable[DeviceRecord]) -> Iterator[NearMiss]:
    """Devices that one condition keeps out, those with the same values together; the most first."""
    if len(selector.conditions) == 1:
        return
    groups: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[str]] = {}
    for one in kept_out:
        part = _only_one(selector.conditions, one)
        if part is None:
            continue
        values = {each.source: each.shown for each in told(part.explain(one)) if each.source != part.source}
        error = part.outcome(one).error or ""
        shown = {} if error else {source: value for source, value in values.items() if "device" in source}
        groups.setdefault((part.source, error, tuple(shown.items())), []).append(str(one))
    for (source, error, values_of), names in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        yield NearMiss(source, dict(values_of), tuple(names), error)


def _by_node(state: ClusterState, matched: Iterable[DeviceRecord]) -> Mapping[str, int]:
    nodes = {
        (piece.spec.driver, piece.spec.pool.name, one.name): piece.spec.node_name or one.node_name or ""
        for piece in state.cluster.inventory.slices()
        for one in piece.spec.devices or ()
    }
    found: dict[str, int] = {}
    for one in matched:
        node = nodes.get(one.id, "")
        found[node] = found.get(node, 0) + 1
    return dict(sorted(found.items()))
