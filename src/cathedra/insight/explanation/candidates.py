"""Changes that might make it fit, each one field or one object: proposals, of which nothing is known yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from cathedra.allocation import Allocator
from cathedra.allocation.claims.requests import CLAIM_LIMIT
from cathedra.allocation.supply.devices import Signature
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.api.resource import (
    CapacityRequirements,
    CELDeviceSelector,
    DeviceClass,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from cathedra.api.struct import replace, to_dict
from cathedra.insight.explanation.analysis import Analysis
from cathedra.insight.explanation.causes import DRIVER
from cathedra.insight.explanation.relaxing import relaxed_selectors
from cathedra.insight.explanation.report import Edit
from cathedra.scheduler.judging import IN_MEMORY_NAME

RequestBody = ExactDeviceRequest | DeviceSubRequest
_LIKENESS: Final = 0.5
"""Likeness of two names of classes, from 0 to 1, from which one is proposed instead of the other."""
_AMOUNTS: Final = 6
"""Smaller amounts of capacity that are proposed."""


class Candidate(msgspec.Struct, frozen=True):
    """A proposal: what would be different."""

    kind: str
    rank: int
    """Smaller changes have smaller ranks."""
    text: str
    edits: tuple[Edit, ...] = ()
    claims: Mapping[int, ResourceClaim] = msgspec.field(default_factory=dict)
    """Place among the claims to be allocated → the changed claim."""
    classes: Mapping[str, DeviceClass] = msgspec.field(default_factory=dict)
    free: tuple[ResourceClaim, ...] = ()
    pod: Pod | None = None
    removed: tuple[KubeObject, ...] = ()
    """Pods that the change ends."""
    changed: tuple[KubeObject, ...] = ()
    """Workloads of others with another spec."""
    commands: tuple[str, ...] = ()
    """Commands that carry it out, where they do not follow from the changed claims and the changed pod."""
    target: str = ""
    """The changed object and field; two candidates with one target are alternatives."""


# --- claims


def claim_candidates(analysis: Analysis, claims: Sequence[ResourceClaim], allocator: Allocator) -> Iterator[Candidate]:
    """Yield proposals about the claims and a missing class.

    A class that exists is never changed: it belongs to its vendor, and other claims rely on what it selects.
    """
    signatures = _signatures(analysis, allocator)
    for index, claim in enumerate(claims):
        if claim.metadata.name == IN_MEMORY_NAME:
            continue  # The scheduler makes it from requests of containers, which alone can be changed.
        where = f"claim {claim.metadata.namespace}/{claim.metadata.name}"
        for place, request in enumerate(claim.spec.devices.requests or ()):
            for sub, body, path in _bodies(request, place):
                maker = _RequestCandidates(index, claim, where, place, sub, path, request, body)
                yield from maker.candidates(analysis, allocator, signatures)
        for number, constraint in enumerate(claim.spec.devices.constraints or ()):
            yield _without_constraint(index, claim, where, number, constraint)
        if len(claim.spec.devices.requests or ()) > 1:
            for place, request in enumerate(claim.spec.devices.requests or ()):
                yield _without_request(index, claim, where, place, request)


def _bodies(request: DeviceRequest, place: int) -> Iterator[tuple[int | None, RequestBody, str]]:
    path = f"spec.devices.requests[{place}]"
    if request.exactly is not None:
        yield None, request.exactly, f"{path}.exactly"
    for sub, body in enumerate(request.first_available):
        yield sub, body, f"{path}.firstAvailable[{sub}]"


class _RequestCandidates(msgspec.Struct, frozen=True):
    """Proposals about one request, or one of its sub-requests."""

    index: int
    claim: ResourceClaim
    where: str
    place: int
    sub: int | None
    path: str
    request: DeviceRequest
    body: RequestBody

    @property
    def name(self) -> str:
        """Name of the request in messages."""
        name = f"{self.request.name}/{self.body.name}" if isinstance(self.body, DeviceSubRequest) else self.request.name
        return f"request {name!r} of {self.where}"

    def candidates(
        self, analysis: Analysis, allocator: Allocator, signatures: Sequence[Signature]
    ) -> Iterator[Candidate]:
        body = self.body
        if body.allocation_mode == "ExactCount":
            # No claim is given more devices than the limit, so no larger count can fit.
            for count in range(min(body.count - 1, CLAIM_LIMIT), 0, -1):
                text = f"lower the count of {self.name} from {body.count} to {count}"
                yield self._changed("lower count", 10 + body.count - count, text, "count", count)
        yield from self._capacities(signatures)
        yield from self._selectors(signatures, allocator)
        yield from self._tolerations(analysis)
        yield from self._classes(allocator)

    def _changed(self, kind: str, rank: int, text: str, attribute: str, value: object) -> Candidate:
        body = replace(self.body, **{attribute: value})
        name = {"count": "count", "device_class_name": "deviceClassName"}.get(attribute, attribute)
        edit = Edit(self.where, f"{self.path}.{name}", plain_value(getattr(self.body, attribute)), plain_value(value))
        return Candidate(
            kind,
            rank,
            text,
            (edit,),
            claims={self.index: self._with(body)},
            target=f"{self.where} {self.path} {attribute}",
        )

    def _with(self, body: RequestBody) -> ResourceClaim:
        if isinstance(body, ExactDeviceRequest):
            request = replace(self.request, exactly=body)
        else:
            assert self.sub is not None, "it is a sub-request"
            subs = list(self.request.first_available)
            subs[self.sub] = body
            request = replace(self.request, first_available=tuple(subs))
        return with_request(self.claim, self.place, request)

    def _capacities(self, signatures: Sequence[Signature]) -> Iterator[Candidate]:
        wanted = self.body.capacity.requests if self.body.capacity is not None else {}
        for name, amount in wanted.items():
            values: set[Quantity] = set()
            for signature in signatures:
                for known, capacity in signature.capacity.items():
                    if known in (name, f"{signature.driver}/{name}") or f"{signature.driver}/{known}" == name:
                        values.add(capacity.value)
                        policy = capacity.request_policy
                        if policy is not None:
                            # Amounts between valid values would be rounded up, so only they can help.
                            values.update(policy.valid_values)
                            if policy.valid_range is not None and policy.valid_range.min is not None:
                                values.add(policy.valid_range.min)
            steps = {value for value in values if value < amount}
            steps |= {half for half in _halves(amount) if half < amount}
            for value in sorted(steps, reverse=True)[:_AMOUNTS]:
                requests = {**wanted, name: value}
                text = f"lower the capacity {name} of {self.name} from {amount} to {value}"
                yield self._changed("lower capacity", 15, text, "capacity", CapacityRequirements(requests=requests))

    def _selectors(self, signatures: Sequence[Signature], allocator: Allocator) -> Iterator[Candidate]:
        for number, selector in enumerate(self.body.selectors):
            if selector.cel is None:
                continue
            for rank, relaxed in enumerate(relaxed_selectors(selector.cel.expression, signatures, allocator.features)):
                selectors = _with_selector(self.body.selectors, number, relaxed.expression)
                body = replace(self.body, selectors=selectors)
                yield Candidate(
                    "relax selector",
                    20 + min(rank, 9),
                    f"relax selector #{number} of {self.name}: {relaxed.what}",
                    (
                        Edit(
                            self.where,
                            f"{self.path}.selectors[{number}]",
                            selector.cel.expression,
                            relaxed.expression,
                        ),
                    ),
                    claims={self.index: self._with(body)},
                    target=f"{self.where} {self.path} selector {number}",
                )

    def _tolerations(self, analysis: Analysis) -> Iterator[Candidate]:
        taints: dict[str, None] = {}
        for group in analysis.groups:
            for funnel in group.requests:
                taints.update(dict.fromkeys(funnel.taints))
        for taint in taints:
            key, _, effect = taint.rpartition(":")
            name, _, value = key.partition("=")
            toleration = DeviceToleration(key=name, operator="Equal" if value else "Exists", value=value, effect=effect)
            tolerations = (*self.body.tolerations, toleration)
            text = f"tolerate the device taint {taint} in {self.name}"
            yield self._changed("tolerate device taint", 18, text, "tolerations", tolerations)

    def _classes(self, allocator: Allocator) -> Iterator[Candidate]:
        if allocator.classes(self.body.device_class_name) is not None:
            return
        missing = self.body.device_class_name
        if any(driver == missing for driver, _ in allocator.inventory.pools):
            # Many drivers name their class like themselves, and leave its creation to the administrator.
            expression = f'device.driver == "{missing}"'
            selector = DeviceSelector(cel=CELDeviceSelector(expression=expression))
            made = DeviceClass(
                metadata=ObjectMeta(name=missing, uid=f"DeviceClass//{missing}"),
                spec=DeviceClassSpec(selectors=(selector,)),
            )
            yield Candidate(
                "create class",
                3,
                f"create the device class {missing} with the selector {expression}",
                (Edit(f"device class {missing}", "spec.selectors[0]", None, expression),),
                classes={missing: made},
                target=f"class {missing}",
            )
        for name in _meant(missing, allocator):
            text = f"use the device class {name} in {self.name} instead of {self.body.device_class_name}"
            yield self._changed("use another class", 12, text, "device_class_name", name)


def class_names_of(allocator: Allocator) -> Sequence[str]:
    """Return the names of all classes, where the allocator was given a table of them."""
    # The allocator takes a function. For a dict's `get` the dict behind it has the names.
    table = getattr(allocator.classes, "__self__", None)
    return sorted(table) if isinstance(table, Mapping) else ()


def _meant(name: str, allocator: Allocator) -> list[str]:
    """Return the classes that may be meant: of a similar name, or of the driver of that name.

    Any other class stands for devices of another sort.
    """
    # start-up time: only where a name is wrong
    from difflib import get_close_matches

    known = class_names_of(allocator)
    of_driver = [one for one in known if name in _drivers_of(allocator.classes(one))]
    return list(dict.fromkeys((*of_driver, *get_close_matches(name, known, n=4, cutoff=_LIKENESS))))[:4]


def _drivers_of(one: DeviceClass | None) -> Iterator[str]:
    for selector in one.spec.selectors if one is not None else ():
        if selector.cel is not None and (found := DRIVER.search(selector.cel.expression)) is not None:
            yield found[1]


def _halves(amount: Quantity) -> Iterator[Quantity]:
    value = amount.value()
    for _ in range(_AMOUNTS):
        value //= 2
        if value > 0:
            yield Quantity.of_value(value, amount.format)


def with_request(claim: ResourceClaim, place: int, request: DeviceRequest | None) -> ResourceClaim:
    devices = claim.spec.devices
    requests = list(devices.requests or ())
    requests[place : place + 1] = [] if request is None else [request]
    return replace(claim, spec=replace(claim.spec, devices=replace(devices, requests=tuple(requests))))


def _with_selector(selectors: Sequence[DeviceSelector], number: int, expression: str) -> tuple[DeviceSelector, ...]:
    changed = () if not expression else (DeviceSelector(cel=CELDeviceSelector(expression=expression)),)
    return (*selectors[:number], *changed, *selectors[number + 1 :])


def _without_constraint(
    index: int, claim: ResourceClaim, where: str, number: int, constraint: DeviceConstraint
) -> Candidate:
    devices = claim.spec.devices
    rest = tuple(one for place, one in enumerate(devices.constraints or ()) if place != number)
    changed = replace(claim, spec=replace(claim.spec, devices=replace(devices, constraints=rest)))
    kind = "matchAttribute" if constraint.match_attribute is not None else "distinctAttribute"
    name = constraint.match_attribute or constraint.distinct_attribute or ""
    # A claim may have a constraint over one attribute for each pair of its requests.
    over = f" over {' and '.join(constraint.requests)}" if len(rest) > 0 and constraint.requests else ""
    edit = Edit(where, f"spec.devices.constraints[{number}]", to_dict(constraint), None)
    return Candidate(
        "drop constraint",
        30,
        f"drop the constraint {kind} {name}{over} of {where}",
        (edit,),
        claims={index: changed},
        target=f"{where} constraint {number}",
    )


def _without_request(index: int, claim: ResourceClaim, where: str, place: int, request: DeviceRequest) -> Candidate:
    devices = claim.spec.devices
    left = {one.name for number, one in enumerate(devices.requests or ()) if number != place}
    constraints = tuple(
        replace(one, requests=kept) if one.requests else one
        for one in devices.constraints or ()
        if not one.requests or (kept := tuple(name for name in one.requests if name.partition("/")[0] in left))
    )
    config = tuple(
        replace(one, requests=kept) if one.requests else one
        for one in devices.config or ()
        if not one.requests or (kept := tuple(name for name in one.requests if name.partition("/")[0] in left))
    )
    trimmed = replace(claim, spec=replace(claim.spec, devices=replace(devices, constraints=constraints, config=config)))
    edit = Edit(where, f"spec.devices.requests[{place}]", to_dict(request), None)
    return Candidate(
        "drop request",
        40,
        f"drop request {request.name!r} of {where}",
        (edit,),
        claims={index: with_request(trimmed, place, None)},
        target=f"{where} request {place}",
    )


def _signatures(analysis: Analysis, allocator: Allocator) -> Sequence[Signature]:
    """Return the signatures of devices, those in reach of the nearest nodes first."""
    names = [node.metadata.name for node in analysis.representatives[:4]]
    found: dict[int, Signature] = {}
    for records in (
        *(allocator.inventory.bound.get(name, ()) for name in names),
        allocator.inventory.unbound,
        *list(allocator.inventory.pools.values())[:50],
    ):
        for one in records:
            for device in one.devices:
                found.setdefault(device.signature.number, device.signature)
    return tuple(found.values())


def plain_value(value: Any) -> Any:
    """Return a field's value as an edit shows it."""
    return value if isinstance(value, (str, int, bool, type(None))) else to_dict(value)
