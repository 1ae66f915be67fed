"""Room for further gangs: the number of copies of each gang of the cluster that fit beside all that is allocated.

Gangs with equal demands are counted once. A turn of counting is short, because no change is applied meanwhile; the next
one goes on where it ended.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from cathedra.advisor.model import ClusterModel
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.scheduling_v1beta1 import PodGroup, PodGroupSpec
from cathedra.api.resource import ResourceClaim, ResourceClaimStatus, ResourceClaimTemplate, ResourceSlice
from cathedra.api.struct import encode, replace
from cathedra.clock import Clock
from cathedra.insight.simulation.gangroom import GangMember, further_gangs
from cathedra.scheduler.judging import requests_of
from cathedra.semantics.groupdomains import SAME_ATTRIBUTE, SAME_LABEL
from cathedra.semantics.podclaims import pod_group_name
from cathedra.semantics.podgroups import least_count
from cathedra.semantics.pods import is_terminal, spec_form, workload_labels

MOST_GANGS: Final = 50
"""Gangs that are counted: those with waiting pods, then the newest."""
MOST_PODS: Final = 64
"""Largest number of pods of a gang that is counted."""
TURN_SECONDS: Final = 0.2
"""Seconds after which a turn of counting ends."""
_PODS: Final = "pods"

Figures = Mapping[tuple[str, str, str, str], int]
"""(Namespace, PodGroup, device classes, topology domain) → further copies."""


class GangCapacity:
    """Further copies of gangs, counted again when the model has changed."""

    def __init__(self, model: ClusterModel, clock: Clock) -> None:
        self._model, self._clock = model, clock
        self._version = -1
        self._left: list[tuple[PodGroup, Sequence[Pod]]] = []
        """Gangs that have not been counted since the round began."""
        self._known: dict[Hashable, Mapping[tuple[str, str], int]] = {}
        """Demands of a gang → its figures in this round."""
        self._by_gang: dict[tuple[str, str], Mapping[tuple[str, str], int]] = {}

    @property
    def further(self) -> Figures:
        """Return the figures of all gangs that were counted."""
        # A copy: the thread that counts gangs goes on.
        return {(*gang, *key): number for gang, found in list(self._by_gang.items()) for key, number in found.items()}

    def renew(self) -> None:
        """Count for one turn, unless nothing has changed since all were counted."""
        if not self._left:
            if self._version == self._model.version:
                return
            self._version = self._model.version
            self._left = self._gangs()
            self._known.clear()
            there = {(group.metadata.namespace, group.metadata.name) for group, _ in self._left}
            self._by_gang = {key: found for key, found in self._by_gang.items() if key in there}
        end = self._clock.monotonic() + TURN_SECONDS
        while self._left:
            group, pods = self._left.pop(0)
            self._by_gang[group.metadata.namespace, group.metadata.name] = self._count(group, pods)
            if self._clock.monotonic() > end:
                return

    def _gangs(self) -> list[tuple[PodGroup, Sequence[Pod]]]:
        model = self._model
        if not model.gates.gang_scheduling:
            return []
        members: dict[tuple[str, str], list[Pod]] = {}
        for pod in model.store(Pod).list():
            if (name := pod_group_name(pod)) and not is_terminal(pod):
                members.setdefault((pod.metadata.namespace, name), []).append(pod)
        found: list[tuple[PodGroup, Sequence[Pod]]] = []
        for group in model.store(PodGroup).list():
            pods = members.get((group.metadata.namespace, group.metadata.name), [])
            is_gang = group.spec.scheduling_policy.gang is not None
            if is_gang and least_count(group) <= len(pods) <= MOST_PODS and any(map(model.uses_devices, pods)):
                found.append((group, pods))
        found.sort(key=lambda one: _created(one[0]), reverse=True)
        found.sort(key=lambda one: all(pod.spec.node_name for pod in one[1]))
        return found[:MOST_GANGS]

    def _count(self, group: PodGroup, pods: Sequence[Pod]) -> Mapping[tuple[str, str], int]:
        forms = [self._form(pod) for pod in pods]
        # Counting gets what is in the key and nothing else: a constraint that is read and not in the key has no effect
        # for any gang, instead of the effect of another gang's.
        group = _constraints_of(group)
        demands = (tuple(sorted(forms)), encode(group))
        if demands not in self._known:
            members = {form: self._member(pod) for form, pod in zip(forms, pods, strict=True)}
            found = further_gangs(
                group,
                [members[form] for form in forms],
                self._model.cluster,
                self._free,
                self._model.store(ResourceSlice).list(),
            )
            figures = {(",".join(one.device_classes), one.domain): one.copies for one in found.rooms}
            # Shown at zero too: a graph of what fits must fall to zero, not end.
            self._known[demands] = figures or {(_classes(members.values()), ""): 0}
        return self._known[demands]

    def _form(self, pod: Pod) -> bytes:
        """Return a value that is equal for pods with equal demands, which `_member` then reads alone."""
        # Namespace and labels, because pods on a node may refuse others by them.
        labels = sorted(workload_labels(pod).items())
        claims = [claim.spec for claim in self._claims(pod)]
        return encode((pod.metadata.namespace, labels, claims)) + spec_form(pod)

    def _member(self, pod: Pod) -> GangMember:
        own = pod.metadata
        copy = Pod(
            metadata=ObjectMeta(
                name=f"{own.name}-copy", namespace=own.namespace, uid=f"{own.uid}-copy", labels=workload_labels(pod)
            ),
            # Without its claims, which belong to the pod itself and have the devices of its node.
            spec=replace(pod.spec, node_name="", hostname="", scheduling_group=None, resource_claims=()),
        )
        judgement = self._model.filters.judge(copy)
        nodes = frozenset[str]()
        if judgement.ended is None:
            nodes = frozenset(name for name in judgement.nodes if not judgement.outside.get(name))
        behind = self._model.filters.devices.class_behind
        requests = {name: amount for name, amount in requests_of(copy).items() if amount and not behind(name)}
        return GangMember(tuple(self._claims(pod)), {**requests, _PODS: 1}, nodes)

    def _claims(self, pod: Pod) -> Iterator[ResourceClaim]:
        """Yield the claims of the pod's templates, as they were made, without their devices."""
        names = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
        namespace = pod.metadata.namespace
        for entry in pod.spec.resource_claims:
            if entry.resource_claim_template_name is None:
                continue
            claim = self._model.store(ResourceClaim).get(namespace, names.get(entry.name) or "")
            if claim is None:
                template = self._model.store(ResourceClaimTemplate).get(namespace, entry.resource_claim_template_name)
                if template is None:
                    continue
                claim = ResourceClaim(metadata=replace(template.metadata, name=entry.name), spec=template.spec.spec)
            yield replace(claim, status=ResourceClaimStatus())

    def _free(self, node: str) -> Mapping[str, int]:
        return self._model.filters.free_on(node)


def _constraints_of(group: PodGroup) -> PodGroup:
    """Return a group with nothing but what its pods must have in common."""
    notes = group.metadata.annotations
    kept: dict[str, str] = {name: notes[name] for name in (SAME_LABEL, SAME_ATTRIBUTE) if name in notes}
    spec = PodGroupSpec(scheduling_constraints=group.spec.scheduling_constraints)
    return PodGroup(metadata=ObjectMeta(annotations=kept), spec=spec)


def _created(group: PodGroup) -> float:
    created = group.metadata.creation_timestamp
    return created.timestamp if created is not None else 0.0


def _classes(members: Iterable[GangMember]) -> str:
    """Return the classes of the first choices, for a gang that does not fit."""
    names = {
        (request.exactly or request.first_available[0]).device_class_name
        for member in members
        for claim in member.claims
        for request in claim.spec.devices.requests or ()
    }
    return ",".join(sorted(names))
