"""Refusals: the reasons why claims do not fit on a node, as data.

A refusal costs nothing until its reasons are read: it keeps the problem and computes them from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec


class SelectorReason(msgspec.Struct, frozen=True, rename="camel"):
    """One selector: how many devices reached it, passed, lacked an attribute, or failed otherwise."""

    origin: str
    """«class NAME» or «claim NAMESPACE/NAME»."""
    index: int
    asked: int
    passed: int
    missing: int
    """Number of devices without something that the selector reads."""
    errors: int


class GroupReason(msgspec.Struct, frozen=True, rename="camel"):
    """The requests of one matchAttribute constraint, which need devices with a common value.

    Counted are devices that pass all other tests of a request.
    """

    requests: tuple[str, ...]
    values: int
    """Values of which each request has enough devices."""
    served: int
    """Number of constraints like this one that these values can serve at most."""
    alike: int
    """Constraints of the claim like this one: over the same attribute, with requests for the same devices."""
    lacking: Mapping[str, tuple[str, ...]]
    """Value that only some of the requests have enough devices of → the others; of many values only a few."""

    def __str__(self) -> str:
        """Return the values of which only some requests have enough devices, each with the other requests."""
        return "; ".join([f"{value}: too few for {', '.join(requests)}" for value, requests in self.lacking.items()])


class ConstraintReason(msgspec.Struct, frozen=True, rename="camel"):
    """One constraint, and the values of the devices that pass all other tests of a request."""

    kind: str
    """Form of the constraint: «matchAttribute» or «distinctAttribute»."""
    attribute: str
    requests: tuple[str, ...]
    """The requests to which it applies; empty for all."""
    missing: int
    """Devices without a value that can be compared."""
    values: Mapping[str, int]
    """Value → devices that have it; of many values only the most frequent."""
    together: int
    """Number of devices that agree (matchAttribute), or differ (distinctAttribute); an upper bound for lists."""
    decisive: bool | None
    """True if the claims would fit without it; None if that search was stopped."""
    group: GroupReason | None = None
    """For matchAttribute over several requests: which values they can have in common."""

    @property
    def shortage(self) -> str:
        """Return why its requests cannot all have a common value if counting values shows it; "" otherwise."""
        group = self.group
        if group is None or group.served >= group.alike:
            return ""
        names = f"{', '.join(group.requests[:-1])} and {group.requests[-1]}"
        if group.alike == 1:
            return f"{self}: no value has enough devices for {names}"
        return (
            f"{group.alike} constraints {self}, one of them over {names}, need one value each; "
            f"there are devices for {group.served}"
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.attribute}"


class RequestReason(msgspec.Struct, frozen=True, rename="camel"):
    """Numbers of devices that are left for a request, or for one of its sub-requests, after each test."""

    claim: str
    request: str
    wanted: int
    in_reach: int
    """In pools that the node can use."""
    bound: int
    """Not kept away by binding conditions."""
    class_passed: int
    selected: int
    selectors: tuple[SelectorReason, ...]
    on_node: int
    """Also meant for this node by their own selection."""
    free: int
    holders: Mapping[str, int]
    """Claims that hold the other devices: «namespace/name» → number of devices."""
    operable: int
    """Not in need of a kubelet feature that the node lacks."""
    tolerated: int
    taints: Mapping[str, int]
    """The first taint that is not tolerated → devices."""
    with_capacity: int
    with_counters: int
    constraint_values: int
    """Having the attributes that constraints compare."""
    constraints: tuple[ConstraintReason, ...]
    fits_alone: bool | None
    """True if the request would fit if its claims had no other; None if that search was stopped. For a sub-request: if
    it were the only one."""
    unusable_pools: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Pools that are incomplete or invalid."""
    counter_holders: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Claims that have consumed counters: «namespace/name» → number of devices that lack them."""

    @property
    def available(self) -> int:
        """Devices that pass every test on their own."""
        return self.constraint_values

    @property
    def obstacle(self) -> str:
        """The first test that leaves fewer devices than wanted.

        «constraint»: too few devices can be together; «other requests»: alone it would fit; «combination»: nothing of
        these, for instance counters that no choice of devices leaves enough of.
        """
        for name, count in (
            ("reach", self.in_reach),
            ("binding conditions", self.bound),
            ("class", self.class_passed),
            ("selectors", self.selected),
            ("node selection", self.on_node),
            ("allocated", self.free),
            ("node operations", self.operable),
            ("taints", self.tolerated),
            ("capacity", self.with_capacity),
            ("counters", self.with_counters),
            ("constraint attributes", self.constraint_values),
        ):
            if count < max(self.wanted, 1):
                return name
        if not self.fits_alone and any(constraint.together < self.wanted for constraint in self.constraints):
            return "constraint"
        return "other requests" if self.fits_alone else "combination"

    @property
    def short(self) -> ConstraintReason | None:
        """A constraint for which there are too few values, as counting shows; None if there is none."""
        return next((one for one in self.constraints if one.decisive is not False and one.shortage), None)

    def __str__(self) -> str:
        parts = [f"{self.claim}, request {self.request}: {self.wanted} wanted", f"{self.in_reach} in reach"]
        for label, count, before in (
            ("of the class", self.class_passed, self.bound),
            ("selected", self.selected, self.class_passed),
            ("for this node", self.on_node, self.selected),
            ("free", self.free, self.on_node),
            ("operable", self.operable, self.free),
            ("tolerated", self.tolerated, self.operable),
            ("with capacity", self.with_capacity, self.tolerated),
            ("with counters", self.with_counters, self.with_capacity),
            ("with the constraints' attributes", self.constraint_values, self.with_counters),
        ):
            if count != before:
                parts.append(f"{count} {label}")
        decisive = [str(constraint) for constraint in self.constraints if constraint.decisive]
        parts += [f"pool {pool} is {why}" for pool, why in self.unusable_pools.items()]
        if self.obstacle == "constraint":
            worst = min(self.constraints, key=lambda one: one.together)
            parts.append(f"of which only {worst.together} satisfy {worst} together")
        elif self.obstacle == "other requests" and (short := self.short) is not None:
            lacking = str(short.group)
            parts.append(f"but {short.shortage}" + (f" ({lacking})" if lacking else ""))
        elif self.obstacle == "other requests":
            parts.append("but other requests need them" + (f" under {', '.join(decisive)}" if decisive else ""))
        elif self.obstacle == "combination":
            parts.append("but no combination satisfies " + (", ".join(decisive) or "all requests together"))
        return ", ".join(parts)


class RefusalExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """All reasons of a refusal."""

    requests: tuple[RequestReason, ...]
    fits_when_free: bool | None


class Refusal:
    """The claims do not fit ``node``.

    ``states`` is None if the search was completed. Otherwise it is the number of states after which the search was
    stopped, and nothing is known. ``seconds`` is the time limit that stopped it, or 0 if that was the number of states.
    """

    __slots__ = ("_explain", "_explanation", "_undecided", "node", "seconds", "states")

    def __init__(
        self,
        node: str,
        explain: Callable[[], RefusalExplanation],
        states: int | None = None,
        seconds: float = 0.0,
        undecided: Callable[[], str] | None = None,
    ) -> None:
        """``undecided`` returns the conditions that the search had to satisfy, as text."""
        self.node = node
        self.states = states
        self.seconds = seconds
        self._explain = explain
        self._undecided = undecided
        self._explanation: RefusalExplanation | None = None

    @property
    def stopped(self) -> bool:
        """True if the search was stopped before it was finished."""
        return self.states is not None

    @property
    def stop(self) -> str:
        """Return a sentence on where the search was stopped and what is undecided; empty if it was completed."""
        if self.states is None:
            return ""
        within = f" in {self.seconds:g} s" if self.seconds else ""
        what = f": {self._undecided()}" if self._undecided is not None else ""
        if self.seconds and self.states <= 1:
            return f"stopped{within} before all selectors were evaluated{what}"
        return f"stopped after {self.states} states{within}{what}"

    @property
    def reasons(self) -> tuple[RequestReason, ...]:
        """The reasons for each request, or sub-request; computed on first access."""
        return self._explained.requests

    @property
    def fits_when_free(self) -> bool | None:
        """True if the claims would fit if no device were in use; None if that search was stopped, too."""
        return self._explained.fits_when_free

    @property
    def _explained(self) -> RefusalExplanation:
        if self._explanation is None:
            self._explanation = self._explain()
        return self._explanation

    def to_dict(self) -> dict[str, Any]:
        """Return the refusal as plain values with the names of JSON; each request carries its ``obstacle`` and
        ``text``."""
        requests = [
            {**msgspec.to_builtins(reason), "obstacle": reason.obstacle, "text": str(reason)} for reason in self.reasons
        ]
        return {
            "apiVersion": "cathedra.dev/v1",
            "kind": "Refusal",
            "node": self.node,
            "text": str(self),
            "stopped": self.stopped,
            "states": self.states,
            "fitsWhenFree": self.fits_when_free,
            "requests": requests,
        }

    def __str__(self) -> str:
        if self.stopped:
            return f"{self.node}: {self.stop}"
        return f"{self.node}: " + "; ".join(str(reason) for reason in self.reasons)

    def __bool__(self) -> bool:
        """Return False, so that ``if allocate(…):`` tests whether the claims fit."""
        return False

    def __repr__(self) -> str:
        return f"Refusal({self.node!r}, states={self.states!r})"
