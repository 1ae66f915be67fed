"""The policies of one sort that are in force: those that a binding names, with their expressions compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from cathedra.api.jsonvalue import JSONObject
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import to_dict
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.selection import Selection

__all__ = ["BoundPolicies", "BoundPolicy"]

P = TypeVar("P")
B = TypeVar("B")
C = TypeVar("C")


class BoundPolicy(msgspec.Struct, Generic[P, B, C], frozen=True):
    """A policy, what its expressions compiled to, and its bindings."""

    name: str
    object: P
    compiled: C
    bindings: tuple[B, ...]


class BoundPolicies(Generic[P, B, C]):
    """Follows policies and bindings; a policy is compiled again only when its spec changes."""

    def __init__(
        self,
        registry: Registry,
        policies: GroupResource,
        bindings: GroupResource,
        compiler: Callable[[JSONObject], C],
    ) -> None:
        """``compiler`` takes a policy's spec as plain JSON."""
        self._registry = registry
        self._policies, self._bindings = policies, bindings
        self._compiler = compiler
        self._compiled: dict[str, tuple[Any, C]] = {}
        self._known: tuple[BoundPolicy[P, B, C], ...] | None = None
        for resource in (policies, bindings):
            registry.observe(resource, lambda _: self._forget())

    def __call__(self) -> tuple[BoundPolicy[P, B, C], ...]:
        """The policies that are bound, by name."""
        if self._known is None:
            self._known = tuple(self._load())
        return self._known

    def _load(self) -> Iterator[BoundPolicy[P, B, C]]:
        bindings: dict[str, list[B]] = {}
        for binding in self._objects(self._bindings):
            bindings.setdefault(binding.spec.policy_name, []).append(binding)
        for policy in self._objects(self._policies):
            name = policy.metadata.name
            bound = bindings.get(name)
            if bound:
                yield BoundPolicy(name, policy, self._compile(name, policy.spec), tuple(bound))

    def _compile(self, name: str, spec: Any) -> C:
        known = self._compiled.get(name)
        if known is not None and known[0] == spec:
            return known[1]
        compiled = self._compiler(to_dict(spec))
        self._compiled[name] = (spec, compiled)
        return compiled

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
