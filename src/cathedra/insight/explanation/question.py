"""Question: pods and claims by name, the pods of workloads, and the objects of manifests.

Objects that controllers would create are created here in the same way: the pod of a workload's template, the claims of
a pod's templates. Nothing is written to the cluster. They are added to the state, and all later modules treat them like
existing ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from cathedra.allocation.errors import InvalidInput
from cathedra.allocation.reading import Placed
from cathedra.api.core.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from cathedra.api.core.batch_v1 import CronJob, Job
from cathedra.api.core.core_v1 import (
    Namespace,
    Pod,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodTemplateSpec,
    ReplicationController,
    ResourceQuota,
)
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from cathedra.api.scheme import kind_of
from cathedra.api.struct import replace
from cathedra.controllers.resourceclaim.maker import (
    FeatureDisabled,
    GroupFeatureDisabled,
    check_group_gate,
    claim_from_template,
)
from cathedra.insight.explanation.report import Cause
from cathedra.insight.reading.dumps import definition_of
from cathedra.insight.reading.state import ClusterState, Key, key_of
from cathedra.kinds.core.pods.usage import pod_in_scopes, pod_usage
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.resource.claims.devicequota import exceeded, held_by_namespace, held_limits, least_devices, total
from cathedra.kinds.resource.claims.usage import claim_usage
from cathedra.kinds.resource.claims.validation import ADMIN_LABEL, ADMIN_LABEL_OF_133
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.owners import controller_reference
from cathedra.semantics.podclaims import pod_group_name
from cathedra.semantics.podgroups import least_count
from cathedra.semantics.pods import is_terminal

WORKLOADS: Final = (Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController, Job, CronJob)
Workload = Deployment | ReplicaSet | StatefulSet | DaemonSet | ReplicationController | Job | CronJob
_FAR_FUTURE: Final = 4e9


class PodSubject(msgspec.Struct, frozen=True):
    """A pod with its claims, in the state that has them."""

    pod: Pod
    state: ClusterState
    exists: bool
    origins: dict[str, str]
    """Name of a claim → «named» or «template NAME»."""
    made: frozenset[str]
    """Names of the claims that do not exist yet."""
    faults: tuple[Cause, ...]
    """Claims and templates that are not there, in the order of the pod's entries."""

    @property
    def name(self) -> str:
        """Return the pod's «namespace/name»."""
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"


def validated(
    objects: Iterable[KubeObject], state: ClusterState, place_of: Callable[[KubeObject], Placed] | None = None
) -> tuple[KubeObject, ...]:
    """Return the objects of manifests with the defaults that the API server fills in.

    ``place_of`` returns the place of an object, for errors.

    Raises:
        InvalidInput: it would refuse one of them; the text is the API server's.
    """
    objects = tuple(objects)
    labels = {
        **{one.metadata.name: one.metadata.labels for one in state.all(Namespace)},
        **{one.metadata.name: one.metadata.labels for one in objects if isinstance(one, Namespace)},
    }
    found = []
    for one in objects:
        # Of a namespace that was not read, no label is known either: the benefit of the doubt.
        unknown = {} if state.is_known(Namespace) else dict.fromkeys((ADMIN_LABEL, ADMIN_LABEL_OF_133), "true")
        context = _context(state, labels.get(key_of(one)[0], unknown))
        gvk = kind_of(type(one))
        definition = definition_of(gvk.group, gvk.kind)
        if definition is None:
            continue
        namespace, name = key_of(one)
        meta: ObjectMeta = one.metadata
        # Validation requires a name, which the API server generates later.
        metadata = replace(meta, namespace=namespace, name=name or f"{meta.generate_name}x")
        named = definition.strategy.default(replace(one, metadata=metadata), context)
        if isinstance(named, (ResourceClaim, ResourceClaimTemplate)):
            strategy = definition.strategy
            errors = (*strategy.validate_access(named, context), *strategy.validate_create(named, context))
            if errors:
                where = f"{gvk.kind} {namespace}/{metadata.name}"
                if place_of is not None and (placed := place_of(one)).file:
                    where = f"{placed}: {where}"
                raise InvalidInput(f"{where} is invalid: {'; '.join(map(str, errors))}")
        found.append(named)
    return tuple(found)


def find_workload(kind: type[KubeObject], name: str, namespace: str, state: ClusterState) -> Any:
    """Return the object with that name.

    Raises:
        InvalidInput: there is none; the text lists those that exist.
    """
    found = state.get(kind, name, namespace)
    if found is not None:
        return found
    for what in state.undecodable:
        if (what.kind, what.namespace, what.name) == (kind.__name__, namespace, name):
            raise InvalidInput(str(what))
    word = kind.__name__.lower()
    elsewhere = sorted(key[0] for key in state.objects.get(kind, {}) if key[1] == name)
    if elsewhere:
        raise InvalidInput(
            f"there is no {word} {name!r} in namespace {namespace!r}, but one in {', '.join(elsewhere)}; "
            f"say -n {elsewhere[0]}"
        )
    some = sorted(key[1] for key in state.objects.get(kind, {}) if key[0] == namespace)
    hint = f"; there are {', '.join(some[:5])}{' …' if len(some) > 5 else ''}" if some else ""
    raise InvalidInput(f"there is no {word} {name!r} in namespace {namespace!r} of {state.source}{hint}")


def waiting_pods(state: ClusterState, namespace: str) -> Iterator[Pod]:
    """Yield the pods that are not where their owner wants them: without a node, not running, not ready, or ending."""
    for pod in state.pods:
        if namespace not in ("", pod.metadata.namespace) or is_terminal(pod):
            continue
        unfinished = pod.metadata.deletion_timestamp is not None or pod.status.phase != "Running"
        ready = find_condition(pod.status.conditions, "Ready")
        if not pod.spec.node_name or unfinished or (ready is not None and ready.status == "False"):
            yield pod


def pods_of(workload: Workload, state: ClusterState) -> Iterator[Pod]:
    """Yield the pods that a workload has made and that have not ended."""
    owners = {workload.metadata.uid}
    if isinstance(workload, (Deployment, CronJob)):
        kind: type[KubeObject] = ReplicaSet if isinstance(workload, Deployment) else Job
        for one in state.all(kind):
            metadata = one.metadata
            if any(owner.uid in owners for owner in metadata.owner_references):
                owners.add(metadata.uid)
    for pod in state.pods:
        if not is_terminal(pod) and any(owner.uid in owners for owner in pod.metadata.owner_references):
            yield pod


def next_pod(workload: Workload, state: ClusterState) -> Pod:
    """Return the next pod that the controller of a workload would create, with the API server's defaults."""
    spec = workload.spec.job_template.spec if isinstance(workload, CronJob) else workload.spec
    template = spec.template or PodTemplateSpec()
    metadata = workload.metadata
    pod = Pod(
        metadata=ObjectMeta(
            name=f"{metadata.name}-new",
            namespace=metadata.namespace,
            uid=f"Pod/{metadata.namespace}/{metadata.name}-new",
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
            owner_references=(controller_reference(workload),),
        ),
        spec=template.spec,
    )
    # Kubernetes defaults pods, not the templates in workloads: a template with limits alone has no requests, and its
    # pod would fit on every node.
    definition = definition_of("", "Pod")
    return pod if definition is None else definition.strategy.default(pod, _context(state))


def wanted_pods(workload: Workload) -> int:
    """Return the number of pods that a workload wants at once; 1 where it has no number."""
    spec: Any = workload.spec
    wanted = getattr(spec, "replicas", None)
    if wanted is None:
        wanted = getattr(spec, "parallelism", None)
    completions = getattr(spec, "completions", None)
    return 1 if wanted is None else wanted if completions is None else min(wanted, completions)


def with_siblings(pod: Pod, wanted: int, state: ClusterState) -> ClusterState:
    """Return the state with the other pods that the controller of a new pod creates with it, if they form a gang.

    A pod of a gang is not scheduled before the others exist, so the question about one is a question about all.
    """
    if not pod_group_name(pod) or not state.gates.gang_scheduling:
        return state
    others = []
    for number in range(2, wanted + 1):
        name, uid = f"{pod.metadata.name}-{number}", f"{pod.metadata.uid}-{number}"
        others.append(replace(pod, metadata=replace(pod.metadata, name=name, uid=uid)))
    return state.including(others)


def _context(state: ClusterState, labels: Mapping[str, str] = MappingProxyType({})) -> RequestContext:
    return RequestContext(gates=state.gates, now=state.now or _FAR_FUTURE, namespace_labels=lambda _: labels)


class ManifestSubjects(msgspec.Struct, frozen=True):
    """The objects of manifests that are to be placed."""

    pods: tuple[Pod | Workload, ...]
    """Pods, and workloads that create pods."""
    alone: tuple[ResourceClaim | ResourceClaimTemplate, ...]
    """Claims and templates that none of these uses."""
    used: frozenset[Key]
    """Namespace and name of the claims and templates that they use."""


def manifest_subjects(objects: Iterable[KubeObject], state: ClusterState) -> ManifestSubjects:
    """Return what of the objects is to be placed. A claim that a pod among them uses is placed with it."""
    objects = tuple(objects)
    pods = tuple(one for one in objects if isinstance(one, (Pod, *WORKLOADS)))
    used = frozenset(
        (pod.metadata.namespace, entry.resource_claim_name or entry.resource_claim_template_name or "")
        for pod in (one if isinstance(one, Pod) else next_pod(one, state) for one in pods)
        for entry in pod.spec.resource_claims
    )
    claims = (one for one in objects if isinstance(one, (ResourceClaim, ResourceClaimTemplate)))
    return ManifestSubjects(pods, tuple(one for one in claims if key_of(one) not in used), used)


def with_claims(pod: Pod, state: ClusterState) -> PodSubject:
    """Return the pod with the claims of its templates, which are made where they do not exist yet."""
    exists = state.get(Pod, pod.metadata.name, pod.metadata.namespace) is not None
    # Pods of manifests have no UID. The owner of a claim is known by it, also when the pod is read from the state.
    if not pod.metadata.uid:
        uid = f"Pod/{pod.metadata.namespace}/{pod.metadata.name}"
        pod = replace(pod, metadata=replace(pod.metadata, uid=uid))
    if pod.spec.resource_claims and (missing := state.without_devices):
        return PodSubject(pod, state.including([pod]), exists, {}, frozenset(), (Cause("no devices", missing),))
    claims = _PodClaims(pod, state)
    for entry in pod.spec.resource_claims:
        claims.add(entry)
    made, origins = claims.made, claims.origins
    if pod.status.extended_resource_claim_status is not None:
        origins[pod.status.extended_resource_claim_status.resource_claim_name] = "extended resources"
    complete = replace(pod, status=replace(pod.status, resource_claim_statuses=tuple(claims.statuses)))
    return PodSubject(
        complete,
        state.including([complete, *made]) if made or not exists else state,
        exists,
        origins,
        frozenset(claim.metadata.name for claim in made),
        tuple(claims.faults),
    )


class _PodClaims:
    """The claims of one pod, those that the controller would make of templates, and the faults found on the way."""

    def __init__(self, pod: Pod, state: ClusterState) -> None:
        self._pod = pod
        self._state = state
        self._namespace = pod.metadata.namespace
        self._recorded = {status.name for status in pod.status.resource_claim_statuses}
        self.origins: dict[str, str] = {}
        self.made: list[ResourceClaim] = []
        self.faults: list[Cause] = []
        self.statuses = list(pod.status.resource_claim_statuses)

    def add(self, entry: PodResourceClaim) -> None:
        """Add the claim of an entry of the pod's spec."""
        if entry.resource_claim_name is not None:
            self._existing(entry.resource_claim_name, "named")
            return
        template = entry.resource_claim_template_name or ""
        if entry.name not in self._recorded:
            self._generated(entry.name, template)
            return
        for status in self._pod.status.resource_claim_statuses:
            if status.name == entry.name and status.resource_claim_name:
                self._existing(status.resource_claim_name, f"template {template}")

    def _existing(self, name: str, origin: str) -> None:
        self.origins[name] = origin
        if self._state.get(ResourceClaim, name, self._namespace) is None:
            self.faults.append(_missing(ResourceClaim, "claim", name, self._namespace, self._state))

    def _generated(self, entry: str, template_name: str) -> None:
        """Make the claim of an entry from its template."""
        pod, state, namespace = self._pod, self._state, self._namespace
        template = state.get(ResourceClaimTemplate, template_name, namespace)
        if template is None:
            self.faults.append(_missing(ResourceClaimTemplate, "template", template_name, namespace, state))
            return
        try:
            check_group_gate(pod, state.gates)
            claim = claim_from_template(template, pod, entry, state.gates)
        except GroupFeatureDisabled as error:
            self.faults.append(Cause("feature disabled", f"no claim for {entry!r}: {error}"))
            return
        except FeatureDisabled as error:
            self.faults.append(Cause("feature disabled", f"template {template_name!r}: {error}"))
            return
        name = f"{pod.metadata.name}-{entry}"
        uid = f"ResourceClaim/{namespace}/{name}"
        claim = replace(claim, metadata=replace(claim.metadata, name=name, generate_name="", uid=uid))
        self.made.extend(one for one in validated([claim], state) if isinstance(one, ResourceClaim))
        self.origins[name] = f"template {template_name}"
        # The scheduler finds generated claims by the pod's status, which the controller would have written.
        self.statuses.append(PodResourceClaimStatus(name=entry, resource_claim_name=name))


def _missing(kind: type[KubeObject], word: str, name: str, namespace: str, state: ClusterState) -> Cause:
    elsewhere = sorted(key[0] for key in state.objects.get(kind, {}) if key[1] == name)
    text = f"{word} {name!r} does not exist in namespace {namespace!r}"
    if elsewhere:
        text += f"; there is one in {', '.join(elsewhere)}, but a pod uses only those of its own namespace"
        return Cause("wrong namespace", text)
    if not state.is_known(kind):
        text += f" ({state.source} has no {word}s at all)"
    near = _nearest(name, [key[1] for key in state.objects.get(kind, {}) if key[0] == namespace])
    return Cause(f"missing {word}", text + (f"; did you mean {near!r}?" if near else ""))


def _nearest(name: str, known: Sequence[str]) -> str:
    # start-up time: only where a name is wrong
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, known, n=1, cutoff=0.7)), "")


# --- quotas


def exceeded_quotas(pod: Pod | None, claims: Sequence[ResourceClaim], state: ClusterState) -> Iterator[str]:
    """Yield one line for each quota that does not allow one more ``pod`` with these claims, none of which exists
    yet."""
    namespace = pod.metadata.namespace if pod is not None else claims[0].metadata.namespace if claims else ""
    extended = state.gates["DRAExtendedResource"]
    usage: dict[str, Quantity] = {}
    for claim in claims:
        for name, amount in claim_usage(claim, state.all(DeviceClass), extended=extended).items():
            usage[name] = usage[name] + amount if name in usage else amount
    for quota in state.all(ResourceQuota):
        if quota.metadata.namespace != namespace:
            continue
        mine = dict(usage)
        if pod is not None and pod_in_scopes(quota, pod):
            for name, amount in pod_usage(pod, extended=extended).items():
                mine[name] = max(mine[name], amount) if name in mine else amount
        yield from _exceeded(quota, mine)


def exceeded_held_quotas(subject: PodSubject) -> Iterator[str]:
    """Yield the limit on held devices that a pod would exceed, with its gang, as far as requests name devices.

    The scheduler's plugin DeviceQuota enforces such limits, and nothing else reads them. Of a pod that a scheduler has
    refused its own words are known.
    """
    state, namespace = subject.state, subject.pod.metadata.namespace
    quotas = [one for one in state.all(ResourceQuota) if one.metadata.namespace == namespace and held_limits(one)]
    if not quotas or find_condition(subject.pod.status.conditions, "PodScheduled") is not None:
        return
    wanted: dict[str, ResourceClaim] = {}
    for pod in _gang_of(subject.pod, state):
        one = with_claims(pod, state)
        found = (one.state.get(ResourceClaim, name, namespace) for name in one.origins)
        wanted.update((claim.metadata.uid, claim) for claim in found if claim is not None)
    waiting = [claim for claim in wanted.values() if claim.status.allocation is None]
    held = held_by_namespace(state.all(ResourceClaim), state.all(ResourceSlice)).get(namespace, {})
    over = exceeded(quotas, held, total(map(least_devices, waiting)))
    if over is not None:
        yield str(over)


def _gang_of(pod: Pod, state: ClusterState) -> Sequence[Pod]:
    """Return the pod, with those of its gang that must have nodes with it."""
    name, namespace = pod_group_name(pod), pod.metadata.namespace
    group = state.get(PodGroup, name, namespace) if name and state.gates.gang_scheduling else None
    if group is None:
        return (pod,)
    others = [
        one
        for one in state.pods
        if one.metadata.namespace == namespace
        and pod_group_name(one) == name
        and not is_terminal(one)
        and one.metadata.name != pod.metadata.name
    ]
    # Those that run hold their devices already, and count towards the minimum.
    others.sort(key=lambda one: not one.spec.node_name)
    return (pod, *(one for one in others[: least_count(group) - 1] if not one.spec.node_name))


def _exceeded(quota: ResourceQuota, usage: Mapping[str, Quantity]) -> Iterator[str]:
    hard = quota.status.hard or quota.spec.hard
    zero = Quantity.of_value(0)
    over = [
        name
        for name, limit in sorted(hard.items())
        if name in usage and not usage[name].is_zero() and quota.status.used.get(name, zero) + usage[name] > limit
    ]
    if over:
        requested = ",".join(f"{name}={usage[name]}" for name in over)
        used = ",".join(f"{name}={quota.status.used.get(name, zero)}" for name in over)
        limited = ",".join(f"{name}={hard[name]}" for name in over)
        yield (f"exceeded quota: {quota.metadata.name}, requested: {requested}, used: {used}, limited: {limited}")
