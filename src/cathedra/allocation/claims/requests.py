"""Plans of a pod's claims, prepared once and then used for every node (docs/spec/allocation.md §6).

Validation stops at the first problem, in the order of claims, requests and sub-requests. Only mode All reads the node's
devices during validation. A problem that is found here is therefore kept as an *obstacle* at its position in that
order, and raised when the expansion on a node reaches it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from cathedra.allocation.checks.selectors import Interrupted, SelectorCache, SelectorList
from cathedra.allocation.errors import FatalError
from cathedra.allocation.features import Features
from cathedra.api.quantity import Quantity
from cathedra.api.resource import (
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)

CLAIM_LIMIT: Final = 32
"""Devices that one claim may get."""

ClassLookup: TypeAlias = Callable[[str], DeviceClass | None]
"""Device classes by name; None if there is none."""


class RequestOption(msgspec.Struct, frozen=True, eq=False):
    """One way to satisfy a request: the request itself, or one of its sub-requests."""

    claim: int
    request: int
    sub: int
    name: str
    """As in results: «request» or «request/subrequest»."""
    parent: str
    """Name of the request whose sub-request this is, or its own."""
    where: str
    """«claim NS/NAME, request R», as texts of errors begin."""
    device_class: DeviceClass
    question: SelectorList
    origins: tuple[tuple[str, int], ...]
    all_devices: bool
    count: int
    admin: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: Mapping[str, Quantity] | None
    capacity_key: object
    derived: tuple[tuple[str, str], ...]
    """Pairs of name and expression."""
    checks_capacity_last: bool
    """All, under a constraint: whether a device has room is seen after whether the constraint admits it."""
    number: int = 0
    """Place among all options of the pod."""

    def derivation(self, attribute: str) -> str:
        """Return the expression that derives ``attribute``; empty if the attribute is the device's own."""
        return next((expression for name, expression in self.derived if name == attribute), "")


class Obstacle(msgspec.Struct, frozen=True, eq=False):
    """A problem of the claims themselves."""

    error: FatalError


class RequestPlan(msgspec.Struct, frozen=True, eq=False):
    """A request and the ways to satisfy it, in order of preference."""

    name: str
    where: str
    options: tuple[RequestOption | Obstacle, ...]
    alternatives: bool


class Constraint(msgspec.Struct, frozen=True, eq=False):
    """matchAttribute (or, if ``distinct``, distinctAttribute) over some requests of a claim; all if none is named."""

    attribute: str
    requests: frozenset[str]
    distinct: bool

    def __str__(self) -> str:
        return f"{'distinctAttribute' if self.distinct else 'matchAttribute'} {self.attribute}"

    def concerns(self, option: RequestOption) -> bool:
        """Return True if the constraint applies to devices of ``option``."""
        return self.names(option.parent, option.name)

    def names(self, parent: str, name: str) -> bool:
        """Return True if the constraint applies to a request ``parent``, or to its sub-request ``name``."""
        return not self.requests or parent in self.requests or name in self.requests


class ClaimPlan(msgspec.Struct, frozen=True, eq=False):
    """One claim, taken apart."""

    claim: ResourceClaim
    where: str
    requests: tuple[RequestPlan, ...]
    constraints: tuple[Constraint, ...]
    obstacle: Obstacle | None = None
    """A problem of its constraints, which come after the requests."""
    is_configured: bool = False
    """True if the claim or a class that it may use has configuration for devices; most have none."""


class RequestKey(msgspec.Struct, frozen=True, cache_hash=True):
    """Key of the requests of claims, without names: equal for claims that can be given the same devices."""

    asked: tuple[object, ...]


def request_key_of(plans: Sequence[ClaimPlan]) -> RequestKey | None:
    """Return the key of ``plans``; None if they have an obstacle."""
    asked: list[object] = []
    for plan in plans:
        if plan.obstacle is not None:
            return None
        for request in plan.requests:
            asked.append(request.alternatives)
            for option in request.options:
                if isinstance(option, Obstacle):
                    return None
                asked.append(
                    (
                        option.question,
                        option.all_devices,
                        option.count,
                        option.admin,
                        option.tolerations,
                        option.capacity_key,
                        option.derived,
                        *[one.concerns(option) for one in plan.constraints],
                    )
                )
        asked.append(tuple([(one.attribute, one.distinct) for one in plan.constraints]))
    return RequestKey(tuple(asked))


def plan_claims(
    claims: Sequence[ResourceClaim],
    classes: ClassLookup,
    questions: SelectorCache,
    features: Features,
    interrupted: Interrupted | None = None,
) -> tuple[ClaimPlan, ...]:
    """Take ``claims`` apart. Problems become obstacles. Nothing is raised but what ``interrupted`` raises, which is
    called before each selector is compiled."""
    planner = _Planner(classes, questions, features, interrupted)
    return tuple(planner.claim(index, claim) for index, claim in enumerate(claims))


class _Planner:
    def __init__(
        self, classes: ClassLookup, questions: SelectorCache, features: Features, interrupted: Interrupted | None
    ) -> None:
        self.classes, self.questions, self.features, self.interrupted = classes, questions, features, interrupted
        self.options = 0
        self.constraints: list[Constraint] = []

    def claim(self, index: int, claim: ResourceClaim) -> ClaimPlan:
        where = f"claim {claim.metadata.namespace}/{claim.metadata.name}"
        devices = claim.spec.devices
        obstacle = None
        self.constraints = []
        for number, constraint in enumerate(devices.constraints or ()):
            made = self.constraint(constraint)
            # Kubernetes reports a faulty constraint after all requests, so planning goes on and the obstacle is kept.
            if made is None:
                text = f"{where}, constraint #{number}: empty constraint (unsupported constraint type?)"
                obstacle = Obstacle(FatalError(text))
                break
            self.constraints.append(made)
        requests = tuple(
            [self.request(index, number, request, where) for number, request in enumerate(devices.requests or ())]
        )
        options = [option for request in requests for option in request.options if isinstance(option, RequestOption)]
        configured = bool(devices.config) or any(option.device_class.spec.config for option in options)
        return ClaimPlan(claim, where, requests, tuple(self.constraints), obstacle, configured)

    def constraint(self, constraint: DeviceConstraint) -> Constraint | None:
        if constraint.match_attribute is not None:
            return Constraint(constraint.match_attribute, frozenset(constraint.requests), distinct=False)
        if constraint.distinct_attribute is not None and not self.features.stable:
            return Constraint(constraint.distinct_attribute, frozenset(constraint.requests), distinct=True)
        return None

    def request(self, claim: int, number: int, request: DeviceRequest, where: str) -> RequestPlan:
        label = f"{where}, request {request.name}"
        if request.first_available:
            return RequestPlan(
                request.name, label, tuple(self.alternatives(claim, number, request, where)), alternatives=True
            )
        return RequestPlan(request.name, label, (self.exactly(claim, number, request, where),), alternatives=False)

    def exactly(self, claim: int, number: int, request: DeviceRequest, where: str) -> RequestOption | Obstacle:
        exactly = request.exactly
        if exactly is None:
            return _obstacle(f"{where}, request {request.name}: empty request (unsupported request type?)")
        if exactly.capacity is not None and exactly.capacity.requests and not self.features.consumable_capacity:
            return _obstacle(
                f"{where}, request {request.name}: has capacity requests, "
                "but the DRAConsumableCapacity feature is disabled"
            )
        return self.option(exactly, (claim, number, 0), request.name, request.name, f"{where}, request {request.name}")

    def alternatives(
        self, claim: int, number: int, request: DeviceRequest, where: str
    ) -> Iterator[RequestOption | Obstacle]:
        if not self.features.prioritized_list:
            yield _obstacle(
                f"{where}, request {request.name}: has subrequests, but the DRAPrioritizedList feature is disabled"
            )
            return
        # All sub-requests are checked for the gate before the first one is planned, as Kubernetes does.
        for sub in request.first_available:
            if sub.capacity is not None and sub.capacity.requests and not self.features.consumable_capacity:
                yield _obstacle(
                    f"{where}, subrequest {sub.name}: has capacity requests, "
                    "but the DRAConsumableCapacity feature is disabled"
                )
                return
        for index, sub in enumerate(request.first_available):
            name = f"{request.name}/{sub.name}"
            yield self.option(sub, (claim, number, index), name, request.name, f"{where}, request {sub.name}")

    def option(
        self,
        request: ExactDeviceRequest | DeviceSubRequest,
        place: tuple[int, int, int],
        name: str,
        parent: str,
        where: str,
    ) -> RequestOption | Obstacle:
        # The struct of older API versions has no such field.
        derived = tuple((one.name, one.expression) for one in getattr(request, "derived_attributes", ()) or ())
        if derived and not self.features.derived_attributes:
            return _obstacle(f"{where}: cannot handle request with derived attributes, the feature is disabled")
        admin = request.admin_access if isinstance(request, ExactDeviceRequest) else None
        device_class = self._checked_class(request, admin, where)
        if isinstance(device_class, Obstacle):
            return device_class
        claim_origin = where.partition(",")[0]
        capacity = request.capacity.requests if request.capacity is not None else None
        self.options += 1
        return RequestOption(
            claim=place[0],
            request=place[1],
            sub=place[2],
            name=name,
            parent=parent,
            where=where,
            device_class=device_class,
            question=self.questions.of(
                (*_expressions(device_class.spec.selectors), *_expressions(request.selectors)),
                self.features,
                self.interrupted,
            ),
            origins=(
                *((f"class {device_class.metadata.name}", i) for i in range(len(device_class.spec.selectors))),
                *((claim_origin, i) for i in range(len(request.selectors))),
            ),
            all_devices=request.allocation_mode == "All",
            count=request.count,
            admin=bool(admin),
            tolerations=request.tolerations,
            capacity=capacity,
            capacity_key=tuple(sorted((key, str(value)) for key, value in (capacity or {}).items())),
            derived=derived,
            # For mode All Kubernetes tests constraints before capacity, and a failing constraint is an error there.
            checks_capacity_last=request.allocation_mode == "All"
            and any(constraint.names(parent, name) for constraint in self.constraints),
            number=self.options - 1,
        )

    def _checked_class(
        self, request: ExactDeviceRequest | DeviceSubRequest, admin: bool | None, where: str
    ) -> DeviceClass | Obstacle:
        """Return the class of a request, or the first error in the request, in Kubernetes' order."""
        for index, selector in enumerate(request.selectors):
            if selector.cel is None:
                return _obstacle(f"{where}, selector #{index}: CEL expression empty (unsupported selector type?)")
        if admin is not None and not self.features.admin_access:
            return _obstacle(f"{where}: admin access is requested, but the feature is disabled")
        if not request.device_class_name:
            return _obstacle(f"{where}: missing device class name (unsupported request type?)")
        device_class = self.classes(request.device_class_name)
        if device_class is None:
            class_name = request.device_class_name
            return _obstacle(
                f"{where}: could not retrieve device class {class_name}: "
                f'deviceclass.resource.k8s.io "{class_name}" not found'
            )
        if request.allocation_mode not in ("ExactCount", "All"):
            return _obstacle(f"{where}: unsupported count mode {request.allocation_mode}")
        return device_class


def _expressions(selectors: Sequence[DeviceSelector]) -> list[str]:
    return [selector.cel.expression if selector.cel is not None else "" for selector in selectors]


def _obstacle(text: str) -> Obstacle:
    return Obstacle(FatalError(text))
