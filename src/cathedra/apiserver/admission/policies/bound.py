"""The policies of one sort that are in force: those that a binding names, with their expressions compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from cathedra.api.jsonvalue import JSONObject
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import to_dict
from cathedra.apiserver.computation import VALIDATION_SECONDS, Computations, timed_out
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.selection import Selection
from cathedra.offload import DeadlineExceeded

P = TypeVar("P")
B = TypeVar("B")
C = TypeVar("C")
T = TypeVar("T")


async def compiled_in_time(computations: Computations, owner: str, work: Callable[[Callable[[], object]], T]) -> T:
    """Return what ``work`` compiles, beside the event loop if it takes long.

    Raises:
        StatusError: 504, it takes too long.
    """
    try:
        return await computations.allowance(owner, VALIDATION_SECONDS).complete(lambda limit: work(limit.check))
    except DeadlineExceeded:
        raise timed_out() from None


class BoundPolicy(msgspec.Struct, Generic[P, B], frozen=True):
    """A policy and its bindings."""

    name: str
    object: P
    bindings: tuple[B, ...]


class BoundPolicies(Generic[P, B, C]):
    """Follows policies and bindings; a policy is compiled for its first request, and again only when its spec
    changes."""

    def __init__(
        self,
        registry: Registry,
        policies: GroupResource,
        bindings: GroupResource,
        compiler: Callable[[JSONObject, Callable[[], object]], C],
        computations: Computations,
    ) -> None:
        """``compiler`` takes a policy's spec as plain JSON, and a function that it calls between expressions."""
        self._computations = computations
        self._registry = registry
        self._policies, self._bindings = policies, bindings
        self._compiler = compiler
        self._compiled: dict[str, tuple[Any, C]] = {}
        self._known: tuple[BoundPolicy[P, B], ...] | None = None
        for resource in (policies, bindings):
            registry.observe(resource, lambda _: self._forget())

    def __call__(self) -> tuple[BoundPolicy[P, B], ...]:
        """Return the policies that have bindings, sorted by name."""
        if self._known is None:
            self._known = tuple(self._load())
        return self._known

    async def compiled(self, policy: BoundPolicy[P, B], owner: str) -> C:
        """Return the compiled expressions of a policy; ``owner`` is the user whose request needs them.

        Raises:
            StatusError: 504, compiling takes too long.
        """
        spec: Any = policy.object.spec  # type: ignore[attr-defined]  # every policy has one
        known = self._compiled.get(policy.name)
        # A policy that was deleted and created anew under its name may have other expressions.
        if known is not None and (known[0] is spec or known[0] == spec):
            return known[1]
        made = await compiled_in_time(self._computations, owner, lambda check: self._compiler(to_dict(spec), check))
        self._compiled[policy.name] = (spec, made)
        return made

    def _load(self) -> Iterator[BoundPolicy[P, B]]:
        bindings: dict[str, list[B]] = {}
        for binding in self._objects(self._bindings):
            bindings.setdefault(binding.spec.policy_name, []).append(binding)
        for policy in self._objects(self._policies):
            name = policy.metadata.name
            bound = bindings.get(name)
            if bound:
                yield BoundPolicy(name, policy, tuple(bound))

    def _objects(self, resource: GroupResource) -> list[Any]:
        try:
            table = self._registry.table(resource)
        except KeyError:
            return []
        return [entry.object for entry in table.select(Selection(""))]

    def _forget(self) -> None:
        self._known = None
        names = {policy.metadata.name for policy in self._objects(self._policies)}
        for gone in self._compiled.keys() - names:
            del self._compiled[gone]
