"""Funnels: the number of devices that are left for each request after each test, on one node.

The counts are the allocator's own (`cathedra.allocation.refusal`). Here the texts of the selectors, the attributes that
these read, and a sentence are added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cathedra.allocation import Allocator, ConstraintReason, PreparedRequests, RequestReason
from cathedra.allocation.checks.selectors import SelectorList
from cathedra.allocation.claims.requests import Obstacle, RequestOption
from cathedra.allocation.refusal import RefusalExplanation
from cathedra.insight.explanation.report import FunnelStep, RequestFunnel, SelectorFunnel
from cathedra.printable import counted

Options = Mapping[tuple[str, str], RequestOption]
"""By «claim NAMESPACE/NAME» and request."""
_HOLDERS: Final = 2
"""Holders that are named in a sentence; more are counted."""


class AttributeCounts:
    """Number of devices of the cluster on which an attribute is set, for each attribute; counted on first access."""

    def __init__(self, allocator: Allocator) -> None:
        self._records = [
            device for records in allocator.inventory.pools.values() for one in records for device in one.devices
        ]
        self._counts: dict[str, int] = {}

    @property
    def devices(self) -> int:
        """Return the number of devices."""
        return len(self._records)

    def count(self, name: str) -> int:
        """On how many the attribute of that qualified name is set."""
        if name not in self._counts:
            self._counts[name] = sum(record.signature.attribute(name) is not None for record in self._records)
        return self._counts[name]

    def read_by(self, expression: str) -> Mapping[str, int]:
        """Return the attributes that a selector reads by name, with their counts; none if its text does not determine
        them."""
        names = SelectorList((), (expression,)).projection or ()
        return {name: self.count(name) for name in names}


def options_of(prepared: PreparedRequests) -> Options:
    """The requests of prepared claims, and their sub-requests."""
    return {
        (plan.where, option.name): option
        for plan in prepared.plans
        for request in plan.requests
        for option in request.options
        if not isinstance(option, Obstacle)
    }


def funnels(
    found: RefusalExplanation, options: Options, prepared: PreparedRequests, attributes: AttributeCounts
) -> Iterator[RequestFunnel]:
    """The funnels of all requests, in their order."""
    for reason in found.requests:
        option = options[reason.claim, reason.request]
        yield RequestFunnel(
            claim=reason.claim.removeprefix("claim "),
            request=reason.request,
            device_class=option.device_class.metadata.name,
            wanted=reason.wanted,
            all_devices=option.all_devices,
            steps=tuple(_steps(reason, option)),
            selectors=tuple(_selectors(reason, expressions(option, prepared), attributes)),
            holders=dict(sorted(reason.holders.items(), key=lambda item: (-item[1], item[0]))),
            taints=reason.taints,
            constraints=tuple(_constraints(reason)),
            obstacle=obstacle(reason),
            text=sentence(reason, option, attributes),
            shortage=_shortage(reason),
        )


def obstacle(reason: RequestReason) -> str:
    """The first test that leaves too few; "" if nothing is wrong with the request by itself."""
    if reason.fits_alone is None and reason.obstacle in ("constraint", "combination"):
        return ""  # not decided: the search was stopped
    tied = _shortage(reason) or any(one.decisive for one in reason.constraints)
    if reason.obstacle == "other requests" and not tied:
        return ""
    return reason.obstacle


def expressions(option: RequestOption, prepared: PreparedRequests) -> Sequence[str]:
    """The selectors of a request in the order of their origins: the class's, then its own."""
    request = (prepared.plans[option.claim].claim.spec.devices.requests or ())[option.request]
    own = request.first_available[option.sub].selectors if request.first_available else ()
    if request.exactly is not None:
        own = request.exactly.selectors
    return [one.cel.expression if one.cel is not None else "" for one in (*option.device_class.spec.selectors, *own)]


def _steps(reason: RequestReason, option: RequestOption) -> Iterator[FunnelStep]:
    before = reason.in_reach
    yield FunnelStep("in reach", before, 0, _pools(reason))
    for test, left, detail in (
        ("without binding conditions", reason.bound, ""),
        (f"of class {option.device_class.metadata.name}", reason.class_passed, ""),
        ("matching the request's selectors", reason.selected, ""),
        ("meant for the node", reason.on_node, ""),
        ("free", reason.free, holders_text(reason.holders)),
        ("usable by the node's kubelet", reason.operable, ""),
        ("without an untolerated taint", reason.tolerated, ", ".join(f"{n} × {t}" for t, n in reason.taints.items())),
        ("with enough capacity", reason.with_capacity, _wanted_capacity(option)),
        ("with enough counters", reason.with_counters, ""),
        ("with the attributes of constraints", reason.constraint_values, ""),
    ):
        always = test.startswith(("of class", "matching", "free"))
        if always or left != before:
            yield FunnelStep(test, left, before - left, detail if left != before else "")
        before = left


def _selectors(reason: RequestReason, texts: Sequence[str], attributes: AttributeCounts) -> Iterator[SelectorFunnel]:
    for one, text in zip(reason.selectors, texts, strict=True):
        decided = one.passed < one.asked
        yield SelectorFunnel(
            one.origin,
            one.index,
            text,
            one.asked,
            one.passed,
            one.missing,
            one.errors,
            attributes.read_by(text) if decided else {},
        )


def _constraints(reason: RequestReason) -> Iterator[str]:
    for one in reason.constraints:
        missing = f"; not set on {counted(one.missing, 'device')}" if one.missing else ""
        verb = "agree" if one.kind == "matchAttribute" else "differ"
        yield f"{one}: at most {one.together} {verb}; values: {_values(one)}{missing}"


def _pools(reason: RequestReason) -> str:
    return "; ".join(f"pool {name} is {why}" for name, why in reason.unusable_pools.items())


def _wanted_capacity(option: RequestOption) -> str:
    return ", ".join(f"{name}: {amount} wanted" for name, amount in (option.capacity or {}).items())


def holders_text(holders: Mapping[str, int]) -> str:
    """Return the holders of the other devices as text."""
    if not holders:
        return ""
    ordered = sorted(holders, key=lambda name: (-holders[name], name))
    more = len(ordered) - _HOLDERS
    named = ", ".join(f"{name} ({holders[name]})" if holders[name] > 1 else name for name in ordered[:_HOLDERS])
    return f"held by {named}" + (f" and {more} more" if more > 0 else "")


def sentence(reason: RequestReason, option: RequestOption, attributes: AttributeCounts) -> str:
    """Return the problem of a request on the node in one sentence."""
    wanted = "all" if option.all_devices else str(reason.wanted)
    return f"request {reason.request!r} needs {wanted}{_obstacle_text(reason, option, attributes)}"


def _obstacle_text(reason: RequestReason, option: RequestOption, attributes: AttributeCounts) -> str:
    match reason.obstacle:
        case "reach":
            return _with(f", {counted(reason.in_reach, 'device')} in reach", _pools(reason))
        case "binding conditions":
            return ", but all devices have binding conditions, and the feature is off"
        case "class":
            of_class = f"of class {option.device_class.metadata.name}"
            return f", {reason.class_passed} of {counted(reason.bound, 'device')} in reach are {of_class}"
        case "selectors":
            of_class = counted(reason.class_passed, "device")
            text = f", {reason.selected} of {of_class} of its class match its selectors"
            return _with(text, _unset(option, attributes))
        case "node selection":
            matching = counted(reason.selected, "matching device")
            return f", {reason.on_node} of {matching} are meant for the node"
        case "allocated":
            matching = counted(reason.on_node, "matching device")
            return _with(f", {reason.free} of {matching} are free", holders_text(reason.holders))
        case "node operations":
            free = counted(reason.free, "free device")
            return f", {reason.operable} of {free} can be used by the node's kubelet"
        case "taints":
            free = counted(reason.operable, "free device")
            return _with(f", {reason.tolerated} of {free} have no untolerated taint", ", ".join(reason.taints))
        case "capacity":
            free = counted(reason.tolerated, "free device")
            return _with(f", {reason.with_capacity} of {free} have enough capacity left", _wanted_capacity(option))
        case "counters":
            free = counted(reason.with_capacity, "free device")
            return (
                f", {reason.with_counters} of {free} have enough left of the counters that they share with "
                "allocated devices"
            )
        case "constraint attributes":
            unset = [f"{one.attribute} is not set on {one.missing}" for one in reason.constraints if one.missing]
            left = counted(reason.with_counters, "device")
            text = f", {reason.constraint_values} of {left} have what constraints compare"
            return _with(text, ", ".join(unset))
        case "constraint":
            worst = min(reason.constraints, key=lambda one: one.together)
            verb = "agree in" if worst.kind == "matchAttribute" else "differ in"
            return f", but only {worst.together} of the devices left {verb} {worst.attribute}: {_values(worst)}"
        case other:
            return _together(reason, alone=other == "other requests")


def _together(reason: RequestReason, *, alone: bool) -> str:
    if alone and reason.short is not None:
        return _with(f": it fits alone, but {reason.short.shortage}", str(reason.short.group))
    decisive = [one for one in reason.constraints if one.decisive]
    if not alone:
        under = f" under {', '.join(map(str, decisive))}" if decisive else ""
        return f": {counted(reason.available, 'device')} would do one by one, but not together{under}"
    if decisive:
        clash = "; ".join(f"{one} (it could have {_values(one)})" for one in decisive)
        return f": it fits alone, but not together with the others under {clash}"
    return ": it fits alone, but the other requests take what it needs"


def _shortage(reason: RequestReason) -> str:
    return reason.short.shortage if reason.obstacle == "other requests" and reason.short is not None else ""


def _with(text: str, detail: str) -> str:
    return f"{text} ({detail})" if detail else text


def _values(constraint: ConstraintReason) -> str:
    return ", ".join(f"{value} ({count})" for value, count in constraint.values.items()) or "no value"


def _unset(option: RequestOption, attributes: AttributeCounts) -> str:
    """Attributes that no device has, or nearly none."""
    counts = {name: attributes.count(name) for name in option.question.projection or ()}
    total = counted(attributes.devices, "device")
    rare = {name: count for name, count in counts.items() if count * 10 < attributes.devices}
    return "; ".join(f"attribute {name} is set on {count:,} of {total}" for name, count in rare.items())
