"""Explanations of one subject: a pod, a claim, a template, a workload, or the objects of manifests.

`explain` chooses the subjects. An `Explainer` judges each of them by the scheduler's filters and the allocator, and
composes causes, remedies and claims to a report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import structs

from cathedra.allocation.errors import InvalidInput
from cathedra.api.core.apps_v1 import DaemonSet
from cathedra.api.core.batch_v1 import CronJob, Job
from cathedra.api.core.core_v1 import Event, Node, Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import ResourceClaim, ResourceClaimTemplate, ResourceSlice
from cathedra.api.struct import encode, replace
from cathedra.insight.explanation.afterfilters import (
    binding_causes,
    gang_causes,
    not_examined,
    preemption_causes,
    volume_notes,
)
from cathedra.insight.explanation.analysis import Analysis, analyse_claims, analyse_pod
from cathedra.insight.explanation.causes import causes_of, place_of, summary_of
from cathedra.insight.explanation.claims import claim_report, claim_state
from cathedra.insight.explanation.freeing import ROLLOUT
from cathedra.insight.explanation.gangs import gang_fit, gang_text, helps_gang
from cathedra.insight.explanation.grouppreemption import gang_preemption_causes
from cathedra.insight.explanation.question import (
    WORKLOADS,
    PodSubject,
    Workload,
    exceeded_held_quotas,
    exceeded_quotas,
    manifest_subjects,
    next_pod,
    pods_of,
    validated,
    waiting_pods,
    wanted_pods,
    with_claims,
    with_siblings,
)
from cathedra.insight.explanation.remedies import FindRemedies, always, find_remedies, with_largest_counts
from cathedra.insight.explanation.report import Cause, ClaimReport, Explanation, Remedy
from cathedra.insight.reading.manifests import Manifests
from cathedra.insight.reading.state import ClusterState, Note, key_of
from cathedra.printable import counted
from cathedra.scheduler.judging import Filters
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.owners import controller_of
from cathedra.semantics.podclaims import pod_group_name
from cathedra.semantics.podobstacles import deletion_text, obstacles_on_node
from cathedra.semantics.pods import is_terminal

_STOPS: Final = frozenset(("missing node", "node not ready", "container", "node"))
"""Kinds of causes with which a pod of phase Running does not run."""
_DIFFERENT: Final = 8
"""Largest number of pods of one workload that are explained separately."""


class Explainer:
    """Explains subjects of one cluster; the filters are built once for each state."""

    def __init__(
        self,
        only: frozenset[str] | None = None,
        *,
        filters: tuple[ClusterState, Filters] | None = None,
        remedies: FindRemedies = find_remedies,
    ) -> None:
        """``only`` are the nodes that are tried (None: all); ``filters`` are a state and the filters built for it."""
        self.only = only
        self._given = self._filters = filters
        self._remedies = remedies

    def filters(self, state: ClusterState) -> Filters:
        if self._given is not None and self._given[0] is state:
            return self._given[1]
        if self._filters is None or self._filters[0] is not state:
            self._filters = (state, Filters.over(state))
        return self._filters[1]

    def one(self, found: KubeObject, state: ClusterState) -> Explanation:
        if isinstance(found, Pod):
            return self.pod(found, state)
        if isinstance(found, ResourceClaim):
            return self.claim(found, state)
        if isinstance(found, ResourceClaimTemplate):
            return self.template(found, state)
        assert isinstance(found, WORKLOADS), "no other kind can be a subject"
        return self.workload(found, state)

    # --- all that waits

    def waiting(self, state: ClusterState, namespace: str) -> Iterator[Explanation]:
        """Yield an explanation of every pod that waits, and of every workload that cannot create its pods."""
        known: dict[object, Explanation] = {}
        for pod in waiting_pods(state, namespace):
            # The pods of one controller are equal, as in `workload`: thousands of replicas are explained once. Pods
            # with a node differ by what their nodes report.
            owner = controller_of(pod)
            key = (pod.metadata.namespace, owner.uid if owner is not None else encode(pod.spec))
            answer = None if pod.spec.node_name else known.get(key)
            found = answer or self.pod(pod, state)
            if not pod.spec.node_name:
                known[key] = found
            found = structs.replace(found, subject=f"pod {pod.metadata.namespace}/{pod.metadata.name}")
            yield _not_placed(found, pod) if found.verdict == "fits" else found
        for kind in WORKLOADS:
            for workload in state.all(kind):
                assert isinstance(workload, WORKLOADS), "it is of such a kind"
                causes = tuple(one for one in _workload_causes(workload) if one.kind != "suspended")
                if causes and namespace in ("", workload.metadata.namespace) and controller_of(workload) is None:
                    where = f"{kind.__name__.lower()} {workload.metadata.namespace}/{workload.metadata.name}"
                    yield Explanation(where, "does not fit", causes[0].text, causes, notes=state.notes)

    # --- manifests

    def manifests(self, state: ClusterState, given: Manifests) -> Explanation:
        notes = given.notes
        complete = validated(given.objects, state, given.place_of)
        applied = state.including(complete)
        subjects = manifest_subjects(complete, state)
        if not subjects.pods and not subjects.alone:
            missing = "".join(f"; {note}" for note in notes)
            raise InvalidInput(
                f"the manifests have no pod, workload, claim or template: there is nothing to place{missing}"
            )
        parts = tuple(self.one(one, applied) for one in (*subjects.pods, *subjects.alone))
        return _summed("manifests", parts, (*notes,)) if len(parts) > 1 else _noted(parts[0], notes)

    # --- claims

    def claim(self, claim: ResourceClaim, state: ClusterState) -> Explanation:
        where = f"claim {claim.metadata.namespace}/{claim.metadata.name}"
        users = [
            pod
            for pod in state.pods
            if pod.metadata.namespace == claim.metadata.namespace
            and any(entry.resource_claim_name == claim.metadata.name for entry in pod.spec.resource_claims)
        ]
        owner = controller_of(claim)
        origin = f"made for {owner.kind.lower()} {owner.name}" if owner is not None else "named"
        if claim.status.allocation is not None:
            holder = next((pod for pod in users if pod.spec.node_name), None)
            report = claim_report(claim, origin, holder, state, made=False)
            count = len(claim.status.reserved_for)
            text = f"allocated {place_of(claim)}" + (f", reserved for {counted(count, 'pod')}" if count else "")
            return Explanation(where, "allocated", text, claims=(report,), notes=state.notes)
        report = claim_report(
            claim,
            origin,
            None,
            state,
            made=state.get(ResourceClaim, claim.metadata.name, claim.metadata.namespace) is None,
        )
        found = analyse_claims(state, [claim], self.only)
        changes = self._remedies(found, None, always)
        causes = tuple(with_largest_counts(causes_of(found), found, changes))
        if found.fitting and not users:
            causes = (Cause("no consumer", "no pod uses the claim, and it is allocated for the first pod that does"),)
        return Explanation(
            where,
            "fits" if found.fitting else "does not fit",
            summary_of(found, causes),
            causes,
            (report,),
            found.fitting,
            len(found.judgement.nodes),
            found.groups,
            changes,
            state.notes,
        )

    def template(self, template: ResourceClaimTemplate, state: ClusterState) -> Explanation:
        """Return a claim as it would be made from the template."""
        name = f"{template.metadata.name}-new"
        given, namespace = template.spec.metadata, template.metadata.namespace
        metadata = replace(given, name=name, namespace=namespace, uid=f"ResourceClaim/{namespace}/{name}")
        made = validated([ResourceClaim(metadata=metadata, spec=template.spec.spec)], state)
        claim = next(one for one in made if isinstance(one, ResourceClaim))
        found = self.claim(claim, state.including([claim]))
        where = f"template {template.metadata.namespace}/{template.metadata.name}"
        return structs.replace(
            found,
            subject=where,
            claims=tuple(structs.replace(one, origin=where, state="not created") for one in found.claims),
            causes=tuple(one for one in found.causes if one.kind != "no consumer"),
            changes=tuple(_of_template(change, claim, template, where) for change in found.changes),
        )

    # --- pods

    def pod(self, pod: Pod, state: ClusterState, name: str = "") -> Explanation:
        subject = with_claims(pod, state)
        where = name or f"pod {subject.name}"
        if pod.spec.node_name or is_terminal(pod):
            return self._placed(subject, where)
        other = pod.spec.scheduler_name if pod.spec.scheduler_name not in ("", "default-scheduler") else ""
        notes = (*state.notes, *_scheduling_notes(pod, other, state))
        causes = self._own_causes(subject, state)
        found = analyse_pod(subject.state, subject.pod, self.filters(subject.state), self.only)
        gang = gang_fit(subject.pod, subject.state) if found.fitting else None
        if found.fitting:
            causes += gang_causes(pod, state, gang_text(gang))
            notes = (*notes, *not_examined(pod, state, gang_tried=gang is not None))
        else:
            notes = (*notes, *volume_notes([pod], state))
        stuck, stuck_in = found, subject
        if gang is not None and not gang.fits and gang.obstacle is not None and gang.state is not None:
            # The pod fits, so what would help is found at the first of its gang that does not.
            stuck_in = with_claims(gang.obstacle, gang.state)
            stuck = analyse_pod(stuck_in.state, stuck_in.pod, Filters.over(stuck_in.state), gang.within)
        changes = self._remedies(stuck, stuck_in, lambda remedy: helps_gang(subject.pod, subject.state, remedy))
        others = [one for one in causes_of(stuck) if not (subject.faults and one.kind == "claims")]
        others = [*_rollout_causes(changes), *with_largest_counts(others, stuck, changes)]
        if not subject.faults and (not found.fitting or (gang is not None and not gang.fits)):
            others += self._preemption(subject)
        blocked = bool(causes)
        summary = causes[0].text if blocked else summary_of(found, tuple(others))
        if other:
            summary = f"another scheduler decides, {other}; Kubernetes' own would say: {summary}"
        return Explanation(
            where,
            "fits" if found.fitting and not blocked else "does not fit",
            summary,
            (*causes, *others),
            tuple(self._reports(subject)),
            found.fitting if not blocked else (),
            len(found.judgement.nodes),
            stuck.groups,
            changes,
            notes,
        )

    def _own_causes(self, subject: PodSubject, state: ClusterState) -> list[Cause]:
        """Return the causes in the pod, its claims and quotas, which hold on all nodes."""
        causes = list(subject.faults)
        if subject.pod.metadata.deletion_timestamp is not None:
            causes.append(Cause("being deleted", "the pod is being deleted, and the scheduler skips it"))
        if not subject.exists or subject.made:
            made = [one for one in self._claims(subject) if one.metadata.name in subject.made]
            quotas = exceeded_quotas(None if subject.exists else subject.pod, made, state)
            causes += [Cause("quota", text) for text in quotas]
        causes += [Cause("quota", text) for text in exceeded_held_quotas(subject)]
        causes += binding_causes(subject.pod, self._claims(subject), state)
        return causes

    def _preemption(self, subject: PodSubject) -> Iterator[Cause]:
        gates = subject.state.gates
        if not gates.get("DRAPreemption", False):
            return
        if pod_group_name(subject.pod) and gates.gang_scheduling:
            yield from gang_preemption_causes(subject.pod, subject.state)
        else:
            yield from preemption_causes(subject.pod, subject.state, self.filters(subject.state))

    def _claims(self, subject: PodSubject) -> Iterator[ResourceClaim]:
        namespace = subject.pod.metadata.namespace
        for name in subject.origins:
            claim = subject.state.get(ResourceClaim, name, namespace)
            if claim is not None:
                yield claim

    def _reports(self, subject: PodSubject) -> Iterator[ClaimReport]:
        for claim in self._claims(subject):
            name = claim.metadata.name
            yield claim_report(claim, subject.origins[name], subject.pod, subject.state, made=name in subject.made)

    def _placed(self, subject: PodSubject, where: str) -> Explanation:
        """Return the explanation of a pod that has its node."""
        pod, state = subject.pod, subject.state
        reports = tuple(self._reports(subject))
        if is_terminal(pod):
            text = f"has ended ({pod.status.phase}); its claims are given back"
            return Explanation(where, "finished", text, claims=reports, notes=state.notes)
        node = pod.spec.node_name
        obstacles = list(self._not_ready(subject))
        causes = [*subject.faults, *obstacles]
        if ending := deletion_text(pod):
            return Explanation(where, "terminating", ending, tuple(causes), reports, nodes=1, notes=state.notes)
        if pod.status.phase == "Running" and not subject.faults and not any(one.kind in _STOPS for one in obstacles):
            since = f" since {pod.status.start_time}" if pod.status.start_time is not None else ""
            devices = sum(len(report.devices) for report in reports)
            text = f"runs on {node}{since}" + (f" with {counted(devices, 'device')}" if reports else "")
            return Explanation(where, "running", text, tuple(causes), reports, nodes=1, notes=state.notes)
        waiting = [claim for claim in self._claims(subject) if claim.status.allocation is None]
        groups: Analysis | None = None
        if waiting:
            causes.insert(0, Cause("pre-scheduled", _prescheduled(waiting, node)))
            groups = analyse_claims(state, waiting, frozenset((node,)))
            causes += causes_of(groups)
        text = causes[0].text if causes else f"is bound to {node}, and the node prepares it"
        return Explanation(
            where,
            "waiting",
            text,
            tuple(causes),
            reports,
            nodes=1,
            groups=groups.groups if groups is not None else (),
            notes=state.notes,
        )

    def _not_ready(self, subject: PodSubject) -> Iterator[Cause]:
        """Yield the obstacles that the node, or the containers, report."""
        pod, state = subject.pod, subject.state
        if state.is_known(Node) and state.get(Node, pod.spec.node_name) is None:
            yield Cause("missing node", f"node {pod.spec.node_name!r} does not exist")
        for claim in self._claims(subject):
            reserved = any(one.uid == pod.metadata.uid for one in claim.status.reserved_for)
            grouped = any(one.resource == "podgroups" for one in claim.status.reserved_for)
            name = f"{claim.metadata.namespace}/{claim.metadata.name}"
            if claim.status.allocation is not None and not reserved and not grouped and subject.exists:
                yield Cause("not reserved", f"claim {name} is not reserved for the pod, so its node does not start it")
            elif claim.metadata.deletion_timestamp is not None:
                yield Cause("claim deleted", f"claim {name} is {claim_state(claim)}")
        node = state.get(Node, pod.spec.node_name)
        slices = state.all(ResourceSlice) if state.is_known(ResourceSlice) else None
        for one in obstacles_on_node(pod, node, self._claims(subject), slices, state.all(Event)):
            yield Cause(one.kind, one.text)

    # --- workloads

    def workload(self, workload: Workload, state: ClusterState) -> Explanation:
        kind = type(workload).__name__.lower()
        where = f"{kind} {workload.metadata.namespace}/{workload.metadata.name}"
        pods = list(pods_of(workload, state))
        placed = [pod for pod in pods if pod.spec.node_name]
        waiting = [pod for pod in pods if not pod.spec.node_name]
        parts: list[Explanation] = []
        causes = list(_workload_causes(workload))
        # Equal pods are explained once; of different ones only the first few.
        for pod in waiting[:1] if len(waiting) > _DIFFERENT else waiting[:_DIFFERENT]:
            parts.append(self.pod(pod, state))
        wanted = wanted_pods(workload)
        if not pods:
            new = next_pod(workload, state)
            parts.append(self.pod(new, with_siblings(new, wanted, state), name=f"a new pod of {where}"))
        parts += [self.pod(pod, state) for pod in placed[: max(0, _DIFFERENT - len(parts))]]
        merged = _merged(parts)
        bad = [part for part in merged if not part.fits]
        total = f"{counted(len(pods), 'pod')}: {len(placed)} with a node, {len(waiting)} waiting"
        first = bad[0].summary if bad else ""
        summary = (causes[0].text if causes else "") or (f"{total}; {first}" if bad else total)
        if not pods and not causes:
            summary = f"a new pod {merged[0].summary.removeprefix('the pod ')}"
            if merged[0].fits and wanted > 1:
                summary += f"; whether all {wanted} find a place is computed by kubectl dra simulate"
        verdict = "does not fit" if bad or causes else "running" if placed else "fits"
        return Explanation(where, verdict, summary, tuple(causes), parts=tuple(merged), notes=state.notes)


def _scheduling_notes(pod: Pod, other: str, state: ClusterState) -> Iterator[Note]:
    """Yield the facts by which the pod may be scheduled otherwise; ``other`` is its scheduler if that is another."""
    if other:
        yield Note("pods", "other scheduler", f"the scheduler {other} decides, by rules of its own")
    if pod_group_name(pod) and not state.gates["GenericWorkload"]:
        text = "the pod names a PodGroup, but the gate GenericWorkload is off: it is scheduled alone"
        yield Note("podgroups", "gate off", text)


def _not_placed(found: Explanation, pod: Pod) -> Explanation:
    """Return the answer for a pod that fits, and that the scheduler has not placed."""
    condition = find_condition(pod.status.conditions, "PodScheduled")
    last = f"; the scheduler's last message: {condition.message}" if condition is not None and condition.message else ""
    cause = Cause("not scheduled", f"{found.summary}{last}")
    return structs.replace(found, verdict="waiting", causes=(cause,))


def _of_template(change: Remedy, claim: ResourceClaim, template: ResourceClaimTemplate, where: str) -> Remedy:
    """Return a change of the claim that would be made as a change of its template."""
    made = f"claim {claim.metadata.namespace}/{claim.metadata.name}"
    return structs.replace(
        change,
        text=change.text.replace(made, where),
        edits=tuple(
            structs.replace(edit, object=where, path=f"spec.{edit.path}") if edit.object == made else edit
            for edit in change.edits
        ),
        set=tuple(
            replace(template, spec=replace(template.spec, spec=one.spec))
            if isinstance(one, ResourceClaim) and one.metadata.uid == claim.metadata.uid
            else one
            for one in change.set
        ),
    )


def _workload_causes(workload: Workload) -> Iterator[Cause]:
    """Yield the failures that the workload's controller reports."""
    if isinstance(workload, (Job, CronJob)) and workload.spec.suspend:
        yield Cause("suspended", f"{type(workload).__name__.lower()} {workload.metadata.name} is suspended")
    if isinstance(workload, (CronJob, DaemonSet)):
        return
    for condition in workload.status.conditions or ():
        failed = condition.type in ("ReplicaFailure", "FailureTarget", "Failed") and condition.status == "True"
        if failed and condition.message:
            kind = "quota" if "exceeded quota" in condition.message else "controller"
            yield Cause(kind, f"{condition.reason}: {condition.message}")


def _rollout_causes(changes: Sequence[Remedy]) -> Iterator[Cause]:
    for change in changes:
        if change.kind == ROLLOUT:
            old = ", ".join(f"{key_of(pod)[0]}/{key_of(pod)[1]}" for pod in change.removed)
            text = (
                f"the rollout waits for itself: old pods such as {old} hold the devices, and they go only when a new "
                "pod is ready (maxUnavailable rounds down to 0)"
            )
            yield Cause("rollout", text)


def _prescheduled(claims: Sequence[ResourceClaim], node: str) -> str:
    names = ", ".join(f"{one.metadata.namespace}/{one.metadata.name}" for one in claims)
    return (
        f"the pod was given node {node} in its spec.nodeName, past the scheduler, which is what allocates claims: "
        f"{names} will stay pending; leave out spec.nodeName and use a node selector instead"
    )


def _merged(parts: Sequence[Explanation]) -> list[Explanation]:
    """Merge parts with equal results: «pod a and 3 more»."""
    equal: dict[object, list[Explanation]] = {}
    for part in parts:
        key = (part.verdict, part.summary if not part.fits else part.subject, tuple(one.text for one in part.causes))
        equal.setdefault(key, []).append(part)
    merged = []
    for same in equal.values():
        first = same[0]
        if len(same) > 1:
            first = structs.replace(first, subject=f"{first.subject} and {len(same) - 1} more")
        merged.append(first)
    return merged


def _summed(subject: str, parts: tuple[Explanation, ...], notes: tuple[Note, ...]) -> Explanation:
    bad = [part for part in parts if not part.fits]
    summary = f"{len(parts) - len(bad)} of {len(parts)} fit, each by itself"
    return Explanation(
        subject, "does not fit" if bad else "fits", summary, parts=parts, notes=(*notes, *parts[0].notes)
    )


def _noted(part: Explanation, notes: Sequence[Note]) -> Explanation:
    return structs.replace(part, notes=(*notes, *part.notes)) if notes else part
