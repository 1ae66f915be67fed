"""`explain`: the reason why a pod, a claim or a workload waits, or the devices that it has, by the state alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import structs

from cathedra.allocation.errors import InvalidInput
from cathedra.allocation.reading import Input
from cathedra.api.core.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from cathedra.api.core.batch_v1 import CronJob, Job
from cathedra.api.core.core_v1 import Pod, ReplicationController
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import ResourceClaim, ResourceClaimTemplate
from cathedra.deadline import Interruption
from cathedra.insight.explanation.explainer import Explainer
from cathedra.insight.explanation.question import (
    find_workload,
    waiting_pods,
)
from cathedra.insight.explanation.report import Cause, CauseGroup, Explanation, ExplanationOverview
from cathedra.insight.reading.manifests import ManifestOptions, read_manifests
from cathedra.insight.reading.state import ClusterState, Note
from cathedra.printable import counted

__all__ = ["KINDS", "explain", "explain_all", "subjects_of"]

KINDS: Final[Mapping[str, type[KubeObject]]] = {
    **dict.fromkeys(("pod", "pods", "po"), Pod),
    **dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), ResourceClaim),
    **dict.fromkeys(
        ("template", "templates", "resourceclaimtemplate", "resourceclaimtemplates"), ResourceClaimTemplate
    ),
    **dict.fromkeys(("deployment", "deployments", "deploy"), Deployment),
    **dict.fromkeys(("replicaset", "replicasets", "rs"), ReplicaSet),
    **dict.fromkeys(("statefulset", "statefulsets", "sts"), StatefulSet),
    **dict.fromkeys(("daemonset", "daemonsets", "ds"), DaemonSet),
    **dict.fromkeys(("replicationcontroller", "replicationcontrollers", "rc"), ReplicationController),
    **dict.fromkeys(("job", "jobs"), Job),
    **dict.fromkeys(("cronjob", "cronjobs", "cj"), CronJob),
}
"""Kinds that can be explained, by the names that kubectl accepts."""


def explain(
    state: ClusterState,
    subject: str = "",
    *,
    namespace: str = "default",
    node: str = "",
    manifests: Input = None,
    reading: ManifestOptions | None = None,
) -> Explanation:
    """Explain why ``subject`` does not fit into the cluster, or what it has.

    ``subject`` is «pod/NAME», «claim/NAME», «deployment/NAME» and so on (see `KINDS`). With ``manifests`` it is the
    objects in them, as if they were applied; ``reading`` has options for reading them (default: in ``namespace``). With
    ``node`` only that node is tried.

    Raises:
        InvalidInput: there is no such thing, or the manifests are invalid, or of versions that the cluster does not
            serve.
    """
    explainer = Explainer(_only(state, node))
    if manifests is not None:
        options = reading or ManifestOptions(namespace=namespace)
        return explainer.manifests(state, read_manifests(manifests, state, options))
    kind, name = _parse(subject)
    found = find_workload(kind, name, namespace, state)
    return explainer.one(found, state)


def explain_all(
    state: ClusterState,
    subjects: Sequence[str] = (),
    *,
    namespace: str = "",
    node: str = "",
    interruption: Interruption | None = None,
) -> ExplanationOverview:
    """Explain several subjects, or all that waits in ``namespace`` ("": in all of them), grouped by cause.

    If half of the time of ``interruption`` is over, the pods that have not been examined are counted in a note.

    Raises:
        InvalidInput: there is no such thing.
        DeadlineExceeded: ``interruption`` ended it.
    """
    explainer = Explainer(_only(state, node))
    if subjects:
        named = [find_workload(*_parse(subject), namespace or "default", state) for subject in subjects]
        return _grouped((explainer.one(one, state) for one in named), "", state)
    where = f"namespace {namespace}" if namespace else "all namespaces"
    answers = explainer.waiting(state, namespace)
    pods = sum(1 for _ in waiting_pods(state, namespace))
    explained = list(answers if interruption is None else _in_time(answers, pods, interruption))
    found = _grouped((answer for answer in explained if answer.verdict != "running"), where, state)
    left = pods - len(explained)
    if left <= 0:
        return found
    text = f"{counted(left, 'pod')} and the workloads not examined: the time was over; name a namespace, or a pod"
    return structs.replace(found, notes=(*found.notes, Note("pods", "time", text)))


def _in_time(answers: Iterable[Explanation], pods: int, interruption: Interruption) -> Iterator[Explanation]:
    """Yield the answers on ``pods`` pods and those on workloads, or those on the first pods."""
    for number, answer in enumerate(answers, start=1):
        yield answer
        interruption.check()
        # The other half is for the pod that is being explained when it begins, and for the answer to be written.
        if number < pods and interruption.left < interruption.seconds / 2:
            return


def _only(state: ClusterState, node: str) -> frozenset[str] | None:
    if not node:
        return None
    if not any(one.metadata.name == node for one in state.nodes):
        some = ", ".join(one.metadata.name for one in state.nodes[:5])
        raise InvalidInput(f"there is no node {node!r} in {state.source}" + (f"; there are {some}" if some else ""))
    return frozenset((node,))


def subjects_of(words: Sequence[str], state: ClusterState, namespace: str = "default") -> list[str]:
    """Return the subjects of a command line as «kind/name»: KIND/NAME …, KIND NAME …, KIND alone, or names of pods.

    A kind alone means all of its objects in ``namespace``.

    Raises:
        InvalidInput: there is no object of that kind.
    """
    kind = KINDS.get(words[0].lower()) if words else None
    if kind is None or "/" in words[0]:
        return [word if "/" in word else f"pod/{word}" for word in words]
    if len(words) > 1:
        return [word if "/" in word else f"{words[0]}/{word}" for word in words[1:]]
    found = [f"{words[0]}/{name}" for home, name in sorted(state.objects.get(kind, {})) if home == namespace]
    if not found:
        raise InvalidInput(f"there is no {kind.__name__.lower()} in namespace {namespace!r} of {state.source}")
    return found


def _parse(subject: str) -> tuple[type[KubeObject], str]:
    word, slash, name = subject.partition("/")
    if not slash:
        word, name = "pod", subject
    kind = KINDS.get(word.lower().partition(".")[0])
    if kind is None or not name or "/" in name:
        words = "pod, claim, template, deployment, replicaset, statefulset, daemonset, job, cronjob"
        raise InvalidInput(f"{subject!r} is not of the form KIND/NAME; kinds are {words}")
    return kind, name


def _grouped(answers: Iterable[Explanation], where: str, state: ClusterState) -> ExplanationOverview:
    groups: dict[tuple[str, str], CauseGroup] = {}
    for answer in answers:
        cause = _first_cause(answer)
        text = cause.text
        # Claims of a template have the names of their pods, and would make one cause of each.
        for claim in answer.claims:
            if claim.origin != "named":
                text = text.replace(claim.name, f"{claim.name.partition('/')[0]}/{claim.origin}")
        cause = structs.replace(cause, text=text)
        key = (answer.verdict, text)
        known = groups.get(key) or CauseGroup(answer.verdict, cause, ())
        groups[key] = structs.replace(known, subjects=(*known.subjects, answer.subject))
    ordered = sorted(groups.values(), key=lambda group: -len(group.subjects))
    return ExplanationOverview(tuple(ordered), where, state.notes)


def _first_cause(answer: Explanation) -> Cause:
    bad = next((part for part in answer.flat() if not part.fits and part.causes), answer)
    return bad.causes[0] if bad.causes and not answer.fits else Cause(answer.verdict, answer.summary)
