"""The pods that need room: existing ones that wait, those of manifests, or consumers of claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from cathedra.allocation.errors import InvalidInput
from cathedra.allocation.reading import Input
from cathedra.api.core.core_v1 import Container, Pod, PodResourceClaim, PodSpec
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.resource import ResourceClaim, ResourceClaimTemplate
from cathedra.api.struct import replace
from cathedra.insight.explanation.explain import KINDS
from cathedra.insight.explanation.gangs import waiting_gang
from cathedra.insight.explanation.question import WORKLOADS, find_workload, manifest_subjects, next_pod, validated
from cathedra.insight.reading.manifests import ManifestOptions, read_manifests
from cathedra.insight.reading.state import ClusterState, Note, key_of
from cathedra.printable import counted
from cathedra.semantics.pods import is_terminal


class Wanted(msgspec.Struct, frozen=True):
    """Pods that need nodes, in the state that has them."""

    name: str
    pods: tuple[Pod, ...]
    state: ClusterState
    created: tuple[KubeObject, ...] = ()
    """The objects of these that do not exist in the cluster yet."""
    notes: tuple[Note, ...] = ()


def wanted_pods(
    state: ClusterState,
    subjects: Sequence[str] = (),
    *,
    namespace: str = "default",
    manifests: Input = None,
    count: int = 1,
) -> Wanted:
    """Return the pods of «KIND/NAME» words and of manifests; ``count`` of each that does not exist yet.

    Raises:
        InvalidInput: there is no such object, it does not wait, or the manifests have nothing to place.
    """
    if count < 1:
        raise InvalidInput(f"--count must be at least 1, got {count}")
    notes: tuple[Note, ...] = ()
    pods: list[Pod] = []
    created: list[KubeObject] = []
    if manifests is not None:
        read = read_manifests(manifests, state, ManifestOptions(namespace=namespace))
        notes = read.notes
        made = validated(read.objects, state, read.place_of)
        pods, created = _of_manifests(made, state.including(made), count)
    for word in subjects:
        found, new = _named(word, namespace, state, count)
        pods.extend(found)
        created.extend(new)
    if not pods:
        raise InvalidInput("the manifests have no pod, workload, claim or template: there is nothing to place")
    complete = state.including(created)
    identified = tuple(_with_uid(pod) for pod in pods)
    name = f"pod {_name(pods[0])}" if len(pods) == 1 else f"{counted(len(pods), 'pod')} as {_name(pods[0])}"
    return Wanted(name, identified, complete.including(identified), tuple(created), notes)


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _with_uid(pod: Pod) -> Pod:
    uid = pod.metadata.uid or f"Pod/{_name(pod)}"
    return replace(pod, metadata=replace(pod.metadata, uid=uid))


def _named(word: str, namespace: str, state: ClusterState, count: int) -> tuple[list[Pod], list[KubeObject]]:
    """Return the pods that a word names, and the objects that do not exist yet.

    Raises:
        InvalidInput: there is no such object, or it does not wait.
    """
    kind, slash, name = word.partition("/")
    if not slash:
        kind, name = "pod", word
    known = KINDS.get(kind.lower())
    if known is None or not name:
        raise InvalidInput(f"{word!r} is not of the form KIND/NAME, as pod/train-0 or claim/gpu")
    found = find_workload(known, name, namespace, state)
    if isinstance(found, Pod):
        if found.spec.node_name:
            raise InvalidInput(f"pod {_name(found)} has a node already: {found.spec.node_name}")
        return list(waiting_gang(found, state)), []
    if isinstance(found, ResourceClaim):
        if found.status.allocation is not None:
            raise InvalidInput(f"claim {namespace}/{name} has devices already")
        users = [pod for pod in state.pods if _uses(pod, found) and not pod.spec.node_name and not is_terminal(pod)]
        consumer = consumer_of(found)
        return (users[:1], []) if users else ([consumer], [consumer])
    made = list(_copies(found, state, count))
    return [one for one in made if isinstance(one, Pod)], made


def _of_manifests(
    objects: Sequence[KubeObject], applied: ClusterState, count: int
) -> tuple[list[Pod], list[KubeObject]]:
    """Return the pods of manifests, and the objects to be created for them."""
    subjects = manifest_subjects(objects, applied)
    # A named claim that several copies would share is copied with its pod.
    named = {key_of(one): one for one in objects if isinstance(one, ResourceClaim) and key_of(one) in subjects.used}
    rest = [one for one in objects if one not in subjects.pods and one not in subjects.alone]
    created: list[KubeObject] = [one for one in rest if count == 1 or key_of(one) not in named]
    pods: list[Pod] = []
    placed: tuple[KubeObject, ...] = (*subjects.pods, *subjects.alone)
    for subject in placed:
        made = list(_copies(subject, applied, count, named))
        pods += [each for each in made if isinstance(each, Pod)]
        created += made
    return pods, created


def _copies(
    one: KubeObject, state: ClusterState, count: int, named: dict[tuple[str, str], ResourceClaim] | None = None
) -> Iterator[KubeObject]:
    """Yield ``count`` pods like the object, or like those it creates, with the claims that they name."""
    for number in range(1, count + 1):
        suffix = f"-{number}" if count > 1 else ""
        if isinstance(one, (ResourceClaim, ResourceClaimTemplate)):
            claim = _claim(one, suffix)
            yield from (claim, consumer_of(claim))
            continue
        assert isinstance(one, (Pod, *WORKLOADS)), "no other kind is looked for"
        pod = one if isinstance(one, Pod) else _without_owner(next_pod(one, state))
        entries = []
        for entry in pod.spec.resource_claims:
            shared = (named or {}).get((pod.metadata.namespace, entry.resource_claim_name or ""))
            if suffix and shared is not None:
                own = _claim(shared, suffix)
                yield own
                entry = replace(entry, resource_claim_name=own.metadata.name)
            entries.append(entry)
        metadata = replace(pod.metadata, name=f"{pod.metadata.name}{suffix}", uid="")
        yield replace(pod, metadata=metadata, spec=replace(pod.spec, resource_claims=tuple(entries)))


def _without_owner(pod: Pod) -> Pod:
    # In a simulation the workload's controller would delete a pod that is more than its replicas.
    return replace(pod, metadata=replace(pod.metadata, owner_references=()))


def _claim(one: ResourceClaim | ResourceClaimTemplate, suffix: str) -> ResourceClaim:
    spec = one.spec if isinstance(one, ResourceClaim) else one.spec.spec
    name = f"{one.metadata.name}{suffix}"
    uid = f"ResourceClaim/{one.metadata.namespace}/{name}"
    return ResourceClaim(metadata=ObjectMeta(name=name, namespace=one.metadata.namespace, uid=uid), spec=spec)


def consumer_of(claim: ResourceClaim) -> Pod:
    """Return a pod that uses a claim and needs nothing else."""
    return Pod(
        metadata=ObjectMeta(name=f"{claim.metadata.name}-consumer", namespace=claim.metadata.namespace),
        spec=PodSpec(
            containers=(Container(name="main", image="none"),),
            resource_claims=(PodResourceClaim(name="claim", resource_claim_name=claim.metadata.name),),
        ),
    )


def _uses(pod: Pod, claim: ResourceClaim) -> bool:
    return pod.metadata.namespace == claim.metadata.namespace and any(
        entry.resource_claim_name == claim.metadata.name for entry in pod.spec.resource_claims
    )
