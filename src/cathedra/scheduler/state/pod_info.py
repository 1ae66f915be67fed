"""A pod with everything the scheduler reads off it more than once: requests, ports, affinity terms.

Made once for each version of a pod that matters, shared by queue, cache and cycles, never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

from cathedra.api.core.core_v1 import (
    Container,
    NodeAllocatableResourceClaimStatus,
    Pod,
    PodAffinityTerm,
    PodSpec,
    ResourceRequirements,
)
from cathedra.api.core.meta_v1 import LabelSelector, LabelSelectorRequirement
from cathedra.api.quantity import Quantity
from cathedra.api.selectors import Selector, from_label_selector
from cathedra.api.struct import replace
from cathedra.remembering import remembered
from cathedra.semantics.podresources import pod_held_nanos, reported_resources, reports_resources
from cathedra.semantics.pods import long_running_containers

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource that every device class provides, before the name of the class."""

Amounts = dict[str, int]
"""Resource name → milli-units for cpu, units for everything else."""

_MILLI_NANOS = 10**6
_UNIT_NANOS = 10**9


def amounts(quantities: Mapping[str, Quantity]) -> Amounts:
    """Quantities in the scheduler's whole numbers, fractions rounded up."""
    return _whole({name: quantity.nanos for name, quantity in quantities.items()})


def pod_requests(pod: Pod, defaults: Mapping[str, Quantity] | None = None) -> Amounts:
    """Return what ``pod`` holds of its node in all; ``defaults`` are used for containers without a request."""
    return _whole(pod_held_nanos(pod, pod.status.node_allocatable_resource_claim_statuses, defaults))


def is_extended_resource(name: str) -> bool:
    """Return True if ``name`` is a resource outside kubernetes.io that is counted in whole numbers."""
    if "/" not in name or name.startswith("requests."):
        return False
    domain = name.split("/", 1)[0]
    return (domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")) or _implicit_class(name)


def _implicit_class(name: str) -> bool:
    return name.startswith(IMPLICIT_PREFIX)


def _whole(nanos: Mapping[str, int]) -> Amounts:
    return {name: -(-amount // (_MILLI_NANOS if name == CPU else _UNIT_NANOS)) for name, amount in nanos.items()}


NamespaceLabels = Callable[[str], Mapping[str, str]]
"""Namespace → its labels."""

_SCORING_DEFAULTS = {CPU: Quantity("100m"), MEMORY: Quantity("200Mi")}


class AffinityTerm:
    """One term of pod affinity or anti-affinity, parsed."""

    __slots__ = ("_namespace_selector", "_namespaces", "_selector", "topology_key")

    def __init__(self, pod: Pod, term: PodAffinityTerm) -> None:
        self.topology_key = term.topology_key
        self._selector = selector_with_keys(
            term.label_selector, pod.metadata.labels, term.match_label_keys, term.mismatch_label_keys
        )
        names = term.namespaces
        if not names and term.namespace_selector is None:
            names = (pod.metadata.namespace,)
        self._namespaces = frozenset(names)
        self._namespace_selector: Selector | None = (
            None if term.namespace_selector is None else from_label_selector(term.namespace_selector)
        )

    def matches(self, pod: Pod, namespace_labels: NamespaceLabels) -> bool:
        """Return True if the term selects ``pod``."""
        if self._selector is None or not self._selector.matches(pod.metadata.labels):
            return False
        namespace = pod.metadata.namespace
        if namespace in self._namespaces:
            return True
        return self._namespace_selector is not None and self._namespace_selector.matches(namespace_labels(namespace))


class WeightedTerm:
    """A preferred term with its weight; negative for anti-affinity."""

    __slots__ = ("term", "weight")

    def __init__(self, term: AffinityTerm, weight: int) -> None:
        self.term = term
        self.weight = weight


T = TypeVar("T")


class _Derived(Generic[T]):
    """An attribute that is worked out when it is first read: `functools.cached_property` without its lock, which costs
    more than reading does (Python 3.12 has none either)."""

    def __init__(self, work: Callable[[PodInfo], T]) -> None:
        self._work = work

    def __set_name__(self, owner: type[PodInfo], name: str) -> None:
        self._name = name

    def __get__(self, pod: PodInfo, owner: type[PodInfo]) -> T:
        value = pod.__dict__[self._name] = self._work(pod)
        return value


class PodInfo:
    """A pod, and what is derived from its spec."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.uid = pod.metadata.uid
        self.namespace = pod.metadata.namespace
        self.name = pod.metadata.name
        affinity = pod.spec.affinity
        self.has_affinity = affinity is not None and (
            affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
        )
        """True if the pod has terms about other pods."""

    @property
    def key(self) -> str:
        """Return the pod's ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def priority(self) -> int:
        """The pod's priority; none counts as 0."""
        return self.pod.spec.priority or 0

    def taking_the_same(self, pod: Pod) -> PodInfo | None:
        """Return a later version of the pod; None if it has another spec, other labels, or takes other amounts of the
        node."""
        before = self.pod
        if not (pod.spec is before.spec or pod.spec == before.spec) or pod.metadata.labels != before.metadata.labels:
            return None
        if pod.status is before.status or not (reports_resources(pod) or reports_resources(before)):
            # Everything is derived from spec, labels and reported resources.
            return self._with(pod)
        later = PodInfo(pod)
        return later if later._sums() == self._sums() else None

    def on(self, node: str, taken: tuple[NodeAllocatableResourceClaimStatus, ...] = ()) -> PodInfo:
        """Return the pod bound to ``node``, with the amounts ``taken`` that its devices take of the node."""
        bound = replace(self.pod, spec=replace(self.pod.spec, node_name=node))
        if taken or _taken(bound):
            # An earlier attempt may have left amounts of another node in the status.
            bound = replace(bound, status=replace(bound.status, node_allocatable_resource_claim_statuses=taken))
            return PodInfo(bound)
        # Nothing is derived from the name of the node, and all else is the same object.
        return self._with(bound)

    def _with(self, pod: Pod) -> PodInfo:
        """Return the info of a version of the pod from which the same is derived."""
        info = object.__new__(PodInfo)
        # A copied dict costs half of what an update of an empty one does.
        known = info.__dict__ = self.__dict__.copy()
        known["pod"] = pod
        return info

    @_Derived
    def requests(self) -> Amounts:
        """Amounts that the pod takes of its node, without zeros."""
        return self._sums().requests

    @_Derived
    def scoring_requests(self) -> tuple[int, int]:
        """Milli-cpu and bytes of memory for scoring, with defaults for containers without a request."""
        return self._sums().scoring

    def _sums(self) -> _Sums:
        spec = self.pod.spec
        plain = not spec.init_containers and spec.resources is None and not spec.overhead
        has_only_containers = plain and not reports_resources(self.pod)
        sums = _plain_sums(spec.containers) if has_only_containers else _sums_of(self.pod)
        # Every pod with a node needs all of them, so they are kept together.
        derived = self.__dict__
        derived["requests"], derived["scoring_requests"] = sums.requests, sums.scoring
        derived["qualified"] = sums.qualified
        return sums

    @_Derived
    def uses_volume_claims(self) -> bool:
        """True if some volume has a persistent volume claim, or one is made for it."""
        # For every pod: a generator would cost more than the loop.
        for volume in self.pod.spec.volumes:
            if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
                return True
        return False

    @_Derived
    def host_ports(self) -> tuple[tuple[str, str, int], ...]:
        """(address, protocol, port) for every port that the pod takes on its host."""
        spec = self.pod.spec
        if not spec.init_containers:
            for container in spec.containers:
                if container.ports:
                    break
            else:
                return ()
        return tuple(
            [
                (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
                for container in long_running_containers(self.pod)
                for port in container.ports
                if port.host_port > 0
            ]
        )

    @_Derived
    def qualified(self) -> tuple[str, ...]:
        """Requested resources that devices may provide: all with a domain in their name."""
        return self._sums().qualified

    @_Derived
    def required_affinity(self) -> tuple[AffinityTerm, ...]:
        """Required terms of pod affinity."""
        affinity = self.pod.spec.affinity
        if affinity is None or affinity.pod_affinity is None:
            return ()
        terms = affinity.pod_affinity.required_during_scheduling_ignored_during_execution
        return tuple(AffinityTerm(self.pod, term) for term in terms)

    @_Derived
    def required_anti_affinity(self) -> tuple[AffinityTerm, ...]:
        """Required terms of pod anti-affinity."""
        affinity = self.pod.spec.affinity
        if affinity is None or affinity.pod_anti_affinity is None:
            return ()
        terms = affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution
        return tuple(AffinityTerm(self.pod, term) for term in terms)

    @_Derived
    def affinity_terms(self) -> int:
        """Return the number of terms of pod affinity and anti-affinity, required and preferred."""
        affinity = self.pod.spec.affinity
        kinds = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ()
        return sum(
            len(kind.required_during_scheduling_ignored_during_execution)
            + len(kind.preferred_during_scheduling_ignored_during_execution)
            for kind in kinds
            if kind is not None
        )

    @_Derived
    def required_affinity_keys(self) -> frozenset[str]:
        """The topology keys of all required terms of pod affinity."""
        return frozenset([term.topology_key for term in self.required_affinity])

    @_Derived
    def required_anti_affinity_keys(self) -> frozenset[str]:
        """The topology keys of all required terms of pod anti-affinity."""
        return frozenset([term.topology_key for term in self.required_anti_affinity])

    @_Derived
    def preferred_terms(self) -> tuple[WeightedTerm, ...]:
        """Preferred terms of both kinds; weights of anti-affinity are negative."""
        affinity = self.pod.spec.affinity
        if affinity is None:
            return ()
        return tuple(_preferred(self.pod))


def selector_with_keys(
    selector: LabelSelector | None, labels: Mapping[str, str], match: tuple[str, ...], mismatch: tuple[str, ...] = ()
) -> Selector | None:
    """``selector`` narrowed to the pod's own values of some label keys; no selector matches nothing."""
    if selector is None:
        return None
    added = [LabelSelectorRequirement(key=k, operator="In", values=(labels[k],)) for k in match if k in labels]
    added += [LabelSelectorRequirement(key=k, operator="NotIn", values=(labels[k],)) for k in mismatch if k in labels]
    if added:
        selector = replace(selector, match_expressions=(*selector.match_expressions, *added))
    return from_label_selector(selector)


class _Sums(msgspec.Struct, frozen=True):
    """Sums of a pod's requests."""

    requests: Amounts
    scoring: tuple[int, int]
    qualified: tuple[str, ...]
    """Those with a domain in their name."""


def _sums_of(pod: Pod) -> _Sums:
    requested = pod_requests(pod)
    counted = requested if _states_both(pod) else pod_requests(pod, _SCORING_DEFAULTS)
    requests = {name: amount for name, amount in requested.items() if amount}
    scoring = (counted.get(CPU, 0), counted.get(MEMORY, 0))
    qualified = tuple([name for name in requests if "/" in name])
    return _Sums(requests, scoring, qualified)


def _plain_sums(containers: tuple[Container, ...]) -> _Sums:
    """Return the sums of pods that have nothing but these containers. Equal requests share them."""
    requests = []
    for container in containers:
        # By value: pods of a dump share no objects. Numbers are hashed and compared in C.
        requests.append(tuple([(name, of.nanos) for name, of in container.resources.requests.items()]))
    return _sums_of_requests(*requests)


@remembered("sums of equal requests", size=256)
def _sums_of_requests(*requests: tuple[tuple[str, int], ...]) -> _Sums:
    resources = [
        ResourceRequirements(requests={name: Quantity.of_nanos(nanos) for name, nanos in one}) for one in requests
    ]
    return _sums_of(Pod(spec=PodSpec(containers=tuple([Container(resources=one) for one in resources]))))


def _states_both(pod: Pod) -> bool:
    """Return True if every container requests processor and memory, so that no default is used."""
    if pod.spec.init_containers or any(reported_resources(pod)):
        # Resources granted by the kubelet may lack a requested one.
        return False
    for container in pod.spec.containers:
        requests = container.resources.requests
        if CPU not in requests or MEMORY not in requests:
            return False
    return True


def _taken(pod: Pod) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    return pod.status.node_allocatable_resource_claim_statuses


def _preferred(pod: Pod) -> Iterator[WeightedTerm]:
    affinity = pod.spec.affinity
    if affinity is None:
        return
    if affinity.pod_affinity is not None:
        for weighted in affinity.pod_affinity.preferred_during_scheduling_ignored_during_execution:
            yield WeightedTerm(AffinityTerm(pod, weighted.pod_affinity_term), weighted.weight)
    if affinity.pod_anti_affinity is not None:
        for weighted in affinity.pod_anti_affinity.preferred_during_scheduling_ignored_during_execution:
            yield WeightedTerm(AffinityTerm(pod, weighted.pod_affinity_term), -weighted.weight)
