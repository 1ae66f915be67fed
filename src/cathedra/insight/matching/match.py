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
    judged = [_Judged(one, selector) for one in devices]
    matched = [one.device for one in judged if one.verdict is True]
    failed: dict[str, list[str]] = {}
    for one in judged:
        if isinstance(one.verdict, str):
            failed.setdefault(one.verdict, []).append(str(one.device))
    return SelectorMatch(
        expression=expression,
        devices=len(devices),
        matched=tuple(map(str, matched)),
        unmatched=len(devices) - len(matched) - sum(map(len, failed.values())),
        failures=tuple(MatchFailure(error, tuple(names)) for error, names in sorted(failed.items())),
        conditions=tuple(_conditions(selector, judged)),
        near_misses=tuple(_near_misses(judged)) if len(selector.conditions) > 1 else (),
        cost=selector.max_cost,
        nodes=_by_node(state, matched),
        notes=state.notes_on(ResourceSlice),
    )


class _Judged:
    """A device, what the selector says of it, and what each of its conditions says."""

    __slots__ = ("alone", "device", "verdict", "verdicts")

    def __init__(self, device: DeviceRecord, selector: DeviceExpression) -> None:
        self.device = device
        self.verdicts = [_verdict(part, device) for part in selector.conditions]
        unmet = [place for place, verdict in enumerate(self.verdicts) if verdict is not True]
        self.alone = selector.conditions[unmet[0]] if len(unmet) == 1 else None
        """The only condition that the device does not meet; None if there are several, or none."""
        self.verdict: bool | str = not unmet
        if unmet and False not in self.verdicts:
            # Which of several errors is told, the whole expression knows.
            self.verdict = _verdict(selector, device)
        elif unmet:
            self.verdict = False


def _verdict(selector: DeviceExpression, device: DeviceRecord) -> bool | str:
    """True, false, or why neither."""
    outcome = selector.outcome(device)
    if outcome.error is not None:
        return outcome.error
    return outcome.value if isinstance(outcome.value, bool) else f"the value {text(outcome.value)} is no bool"


def _conditions(selector: DeviceExpression, judged: list[_Judged]) -> Iterator[MatchCondition]:
    for place, part in enumerate(selector.conditions):
        verdicts = [one.verdicts[place] for one in judged]
        met, unmet = verdicts.count(True), verdicts.count(False)
        alone = sum(one.alone is part for one in judged)
        yield MatchCondition(part.source, met, unmet, len(judged) - met - unmet, alone)


def _near_misses(judged: Iterable[_Judged]) -> Iterator[NearMiss]:
    """Devices that one condition keeps out, those with the same values together; the most first."""
    groups: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[str]] = {}
    for one in judged:
        part = one.alone
        if part is None:
            continue
        error = part.outcome(one.device).error or ""
        shown = () if error else _values(part, one.device)
        groups.setdefault((part.source, error, shown), []).append(str(one.device))
    for (source, error, values_of), names in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        yield NearMiss(source, dict(values_of), tuple(names), error)


def _values(part: DeviceExpression, device: DeviceRecord) -> tuple[tuple[str, str], ...]:
    """What the device has where the condition looks."""
    told_of = told(part.explain(device))
    return tuple((one.source, one.shown) for one in told_of if one.source != part.source and "device" in one.source)


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
