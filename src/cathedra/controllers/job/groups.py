"""Workload and PodGroup of a job, created before its first pod while the gate WorkloadWithJob is on (KEP-5547).

From 1.37 on `spec.scheduling` states the policy, Basic if it is absent; in 1.36 a gang is inferred for indexed jobs
whose pods all run at once. Objects are found by their references (`spec.controllerRef`, `spec.workloadRef`), never by
name, and among them only those that the job controls. They are deleted with the job through their owner references.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from cathedra.api.core.batch_v1 import Job, JobSchedulingConfiguration
from cathedra.api.core.core_v1 import Pod, PodSchedulingGroup
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.core.scheduling_v1alpha3 import WorkloadPodGroupResourceClaim
from cathedra.api.core.scheduling_v1beta1 import (
    BasicSchedulingPolicy,
    CompositePodGroupTemplate,
    DisruptionMode,
    GangSchedulingPolicy,
    PodGroup,
    PodGroupResourceClaim,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    PodGroupTemplate,
    TypedLocalObjectReference,
    Workload,
    WorkloadReference,
    WorkloadSpec,
)
from cathedra.api.status import StatusError
from cathedra.api.struct import replace, reshape
from cathedra.client.events import EventRecorder
from cathedra.client.resources import PODGROUPS, WORKLOADS
from cathedra.client.store import BY_NAMESPACE, by_namespace
from cathedra.client.workqueue import RetryLater
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.job.pods import is_indexed
from cathedra.controllers.workloads.templates import safe_hash
from cathedra.releases import behaviours
from cathedra.releases.served import versions
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.owners import controller_of, controller_reference, is_controlled_by

GROUP_TEMPLATE_NAME: Final = "scheduling.k8s.io/group-template-name"
"""Annotation of a job: the template of a workload that another controller owns, from which the job creates its
PodGroup."""
PARENT_GROUP: Final = "scheduling.k8s.io/parent-compositepodgroup"
"""Annotation of a job: the CompositePodGroup to which its PodGroup belongs."""
T = TypeVar("T", Workload, PodGroup)

_GROUP: Final = "scheduling.k8s.io"
_LONGEST_NAME: Final = 253
_BY_JOB: Final = "workload-by-job"
_BY_WORKLOAD: Final = "podgroup-by-workload"


class JobGroups:
    """Finds or creates the Workload and the PodGroup of jobs."""

    def __init__(self, context: ControllerContext, recorder: EventRecorder) -> None:
        self._client = context.client
        self._recorder = recorder
        self._is_declared = context.gates.has(behaviours.JOB_SCHEDULING_DECLARED)
        self._owner_version = f"{_GROUP}/{versions(context.gates.release, _GROUP, 'Workload')[0]}"
        """Version in owner references: one that the release serves, or the garbage collector cannot resolve them."""
        self.workloads = context.informers.of(WORKLOADS)
        self.groups = context.informers.of(PODGROUPS)
        self.workloads.store.add_index(_BY_JOB, _job_keys)
        self.workloads.store.add_index(BY_NAMESPACE, by_namespace)
        self.groups.store.add_index(_BY_WORKLOAD, _workload_keys)

    async def wait_synced(self) -> None:
        """Wait for the first lists: with empty stores a second Workload would be created."""
        await self.workloads.wait_synced()
        await self.groups.wait_synced()

    async def of(self, job: Job, pods: Sequence[Pod]) -> PodGroup | None:
        """Return the group of the job's pods; None if they are scheduled one by one.

        Raises:
            StatusError: an object could not be written. No pod may be created before the next attempt: it would be
                scheduled without its group.
        """
        if job.spec.template.spec.scheduling_group is not None:
            return None
        if not self._is_declared:
            return await self._of_own(job, pods) if _was_gang_before(job) else None
        parent = controller_of(job)
        if parent is None:
            return await self._of_own(job, pods)
        if GROUP_TEMPLATE_NAME in job.metadata.annotations:
            return await self._of_parent(job, pods, parent)
        # The parent owns both objects, or, like CronJob, has none.
        return None

    async def _of_own(self, job: Job, pods: Sequence[Pod]) -> PodGroup | None:
        """Both objects are the job's. Those that a user created for it are left alone."""
        workloads = self._controlled(self.workloads.store.by_index(_BY_JOB, _key(job, job.metadata.name)), job)
        if len(workloads) > 1 or (not workloads and not _is_new(job, pods)):
            return None
        workload = workloads[0] if workloads else await self._create_workload(job)
        if len(workload.spec.pod_group_templates) != 1:
            what = f"workload {_key(job, workload.metadata.name)} for job {_key(job, job.metadata.name)}"
            count = len(workload.spec.pod_group_templates)
            raise RetryLater(f"{what} has {count} PodGroupTemplates, want exactly 1")
        groups = self._controlled(self._groups_of(workload), job)
        if len(groups) > 1 or (not groups and not _is_new(job, pods)):
            return None
        template = workload.spec.pod_group_templates[0]
        metadata = workload.metadata
        # Not the controller, and without blockOwnerDeletion: groups must not hold up the workload's deletion.
        owner = OwnerReference("Workload", metadata.name, metadata.uid, self._owner_version)
        owners = (controller_reference(job), owner)
        group = groups[0] if groups else await self._create_group(job, workload, template, owners)
        wanted = _template_of(job, is_declared=self._is_declared).scheduling_policy
        if self._is_declared and _differ_in_count(template.scheduling_policy, wanted):
            resized = replace(workload.spec, pod_group_templates=(replace(template, scheduling_policy=wanted),))
            await self._client.resource(WORKLOADS, job.metadata.namespace).update(replace(workload, spec=resized))
        return await self._with_count(group, wanted)

    async def _of_parent(self, job: Job, pods: Sequence[Pod], parent: OwnerReference) -> PodGroup | None:
        """Return the group of these pods in a workload of the job's controller, which leaves that group to the job.

        The group of a new job is created. Return None if the workload or its template is missing, or if a job that is
        not new has no group.
        """
        workload = self._workload_of(parent, job.metadata.namespace)
        template = _template(workload, job.metadata.annotations[GROUP_TEMPLATE_NAME]) if workload is not None else None
        if workload is None or template is None:
            return None
        groups = self._controlled(self._groups_of(workload), job)
        if not groups and not _is_new(job, pods):
            return None
        # The workload does not own this group: the parent stays the only owner of the workload's tree.
        group = groups[0] if groups else await self._create_group(job, workload, template, (controller_reference(job),))
        return await self._with_count(group, template.scheduling_policy)

    def _workload_of(self, parent: OwnerReference, namespace: str) -> Workload | None:
        group = parent.api_version.rpartition("/")[0]
        for workload in self.workloads.store.by_index(BY_NAMESPACE, namespace):
            reference = workload.spec.controller_ref
            named = reference is not None and (reference.api_group, reference.kind, reference.name)
            if named == (group, parent.kind, parent.name):
                return workload
        return None

    def _groups_of(self, workload: Workload) -> Iterable[PodGroup]:
        return self.groups.store.by_index(_BY_WORKLOAD, f"{workload.metadata.namespace}/{workload.metadata.name}")

    def _controlled(self, found: Iterable[T], job: Job) -> list[T]:
        return [one for one in found if is_controlled_by(one, job)]

    async def _with_count(self, group: PodGroup, wanted: PodGroupSchedulingPolicy) -> PodGroup:
        """Write a changed size of the gang, also while pods run. Nothing else of a group may change."""
        if not self._is_declared or not _differ_in_count(group.spec.scheduling_policy, wanted):
            return group
        changed = replace(group, spec=replace(group.spec, scheduling_policy=wanted))
        return await self._client.resource(PODGROUPS, group.metadata.namespace).update(changed)

    async def _create_workload(self, job: Job) -> Workload:
        name = workload_name(job)
        made = Workload(
            metadata=ObjectMeta(
                name=name, namespace=job.metadata.namespace, owner_references=(controller_reference(job),)
            ),
            spec=WorkloadSpec(
                controller_ref=TypedLocalObjectReference(api_group="batch", kind="Job", name=job.metadata.name),
                pod_group_templates=(_template_of(job, is_declared=self._is_declared),),
            ),
        )
        try:
            created = await self._client.resource(WORKLOADS, job.metadata.namespace).create(made)
        except StatusError as error:
            self._seen_later(error, "workload", name)
            text = f"Failed to create Workload for Job {job.metadata.name}: {error}"
            self._recorder.record(job, "Warning", "FailedWorkloadCreate", text)
            raise
        text = f"Created Workload {created.metadata.name} for Job {job.metadata.name}"
        self._recorder.record(job, "Normal", "WorkloadCreated", text)
        return created

    async def _create_group(
        self, job: Job, workload: Workload, template: PodGroupTemplate, owners: tuple[OwnerReference, ...]
    ) -> PodGroup:
        name = pod_group_name(workload.metadata.name, template.name)
        metadata = ObjectMeta(name=name, namespace=job.metadata.namespace, owner_references=owners)
        spec = PodGroupSpec(
            parent_composite_pod_group_name=job.metadata.annotations.get(PARENT_GROUP) if self._is_declared else None,
            workload_ref=WorkloadReference(workload_name=workload.metadata.name, template_name=template.name),
            scheduling_policy=template.scheduling_policy,
            scheduling_constraints=template.scheduling_constraints,
            resource_claims=template.resource_claims,
            disruption_mode=template.disruption_mode,
            priority_class_name=template.priority_class_name,
        )
        try:
            created = await self._client.resource(PODGROUPS, job.metadata.namespace).create(
                PodGroup(metadata=metadata, spec=spec)
            )
        except StatusError as error:
            self._seen_later(error, "pod group", name)
            raise
        text = f"Created PodGroup {created.metadata.name} for Job {job.metadata.name}"
        self._recorder.record(job, "Normal", "PodGroupCreated", text)
        return created

    def _seen_later(self, error: StatusError, what: str, name: str) -> None:
        """Retry if the object exists and its event has not arrived: the previous sync created it."""
        if error.is_already_exists:
            raise RetryLater(f"{what} {name} exists already") from error


def in_group(pod: Pod, group: PodGroup) -> Pod:
    """Return a job's new pod as a member of the group.

    KEP-5547 makes the group a second owner of the pod. Here it is none: the group's finalizer waits for the pods, and
    the garbage collector keeps a pod that has an owner left, so a deleted job would leave both (docs/deviations.md).
    """
    membership = PodSchedulingGroup(pod_group_name=group.metadata.name)
    return replace(pod, spec=replace(pod.spec, scheduling_group=membership))


def workload_name(job: Job) -> str:
    """Return the name of the job's Workload: the job's, cut where it is too long, and a hash of its UID."""
    # The hash of Kubernetes' DeepHashObject, which writes a value with its Go type.
    digest = safe_hash(f"(types.UID){job.metadata.uid}".encode())
    return f"{job.metadata.name[: _LONGEST_NAME - len(digest) - 1]}-{digest}"


def pod_group_name(workload: str, template: str) -> str:
    """Return the name of a PodGroup: the names of its workload and template, cut evenly where too long, and a hash."""
    digest = safe_hash(f"{workload}{template}".encode())
    room = _LONGEST_NAME - len(digest) - 2
    if len(workload) + len(template) > room:
        half = room // 2
        if len(workload) <= half:
            template = template[: room - len(workload)]
        elif len(template) <= half:
            workload = workload[: room - len(template)]
        else:
            workload, template = workload[: room - half], template[:half]
    return f"{workload}-{template}-{digest}"


def _template_of(job: Job, *, is_declared: bool) -> PodGroupTemplate:
    """Compile the job's ``spec.scheduling``. Optional parts that are absent stay absent."""
    name = f"{job.metadata.name}-pgt-0"
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if not is_declared:
        gang = GangSchedulingPolicy(min_count=parallelism)
        return PodGroupTemplate(name=name, scheduling_policy=PodGroupSchedulingPolicy(gang=gang))
    scheduling = job.spec.scheduling or JobSchedulingConfiguration()
    policy = PodGroupSchedulingPolicy(basic=BasicSchedulingPolicy())
    chosen = scheduling.scheduling_policy
    if chosen is not None and chosen.gang is not None:
        count = chosen.gang.min_count
        # A suspended job may have no parallelism; the smallest size of a gang is one.
        gang = GangSchedulingPolicy(min_count=max(1, parallelism) if count is None else count)
        policy = PodGroupSchedulingPolicy(gang=gang)
    constraints, mode = scheduling.scheduling_constraints, scheduling.disruption_mode
    return PodGroupTemplate(
        name=name,
        scheduling_policy=policy,
        scheduling_constraints=None if constraints is None else reshape(constraints, PodGroupSchedulingConstraints),
        resource_claims=_claims(scheduling.resource_claims),
        disruption_mode=None if mode is None else reshape(mode, DisruptionMode),
        # The scheduler refuses a group whose priority is not that of its pods.
        priority_class_name=job.spec.template.spec.priority_class_name,
    )


def _claims(claims: Iterable[WorkloadPodGroupResourceClaim]) -> tuple[PodGroupResourceClaim, ...]:
    return tuple(reshape(claim, PodGroupResourceClaim) for claim in claims)


def _template(workload: Workload, name: str) -> PodGroupTemplate | None:
    for template in (*workload.spec.pod_group_templates, *_nested(workload.spec.composite_pod_group_templates)):
        if template.name == name:
            return template
    return None


def _nested(composites: Iterable[CompositePodGroupTemplate]) -> Iterable[PodGroupTemplate]:
    for composite in composites:
        yield from composite.pod_group_templates
        yield from _nested(composite.composite_pod_group_templates)


def _is_new(job: Job, pods: Sequence[Pod]) -> bool:
    """Return True if the job never had a pod. A job that is older than the gate keeps scheduling its pods one by one.

    Each sign alone has gaps: finished pods may be deleted, and a suspended job forgets its start time.
    """
    status = job.status
    started = bool(pods or status.start_time or status.succeeded or status.failed)
    return not started and find_condition(status.conditions, "Suspended") is None


def _was_gang_before(job: Job) -> bool:
    """Return True if 1.36 infers a gang: an indexed job of several pods that all run at once."""
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    return parallelism > 1 and is_indexed(job) and job.spec.completions == parallelism


def _differ_in_count(one: PodGroupSchedulingPolicy, other: PodGroupSchedulingPolicy) -> bool:
    return one.gang is not None and other.gang is not None and one.gang.min_count != other.gang.min_count


def _key(job: Job, name: str) -> str:
    return f"{job.metadata.namespace}/{name}"


def _job_keys(workload: Workload) -> tuple[str, ...]:
    reference = workload.spec.controller_ref
    if reference is None or (reference.api_group, reference.kind) != ("batch", "Job"):
        return ()
    return (f"{workload.metadata.namespace}/{reference.name}",)


def _workload_keys(group: PodGroup) -> tuple[str, ...]:
    reference = group.spec.workload_ref
    return (f"{group.metadata.namespace}/{reference.workload_name}",) if reference is not None else ()
