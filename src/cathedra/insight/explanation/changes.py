"""Remedies from proposals that work: their texts, the objects that they change, and the commands that carry them out.

A change of a generated claim lasts in its template only, and one of a controlled pod in its workload only. Where a spec
is immutable the object is to be deleted and created again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import structs

from cathedra.api.core.apps_v1 import Deployment
from cathedra.api.core.batch_v1 import CronJob, Job
from cathedra.api.core.core_v1 import Pod, PodSpec
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate
from cathedra.api.struct import replace
from cathedra.insight.explanation import commands
from cathedra.insight.explanation.analysis import Analysis
from cathedra.insight.explanation.candidates import Candidate
from cathedra.insight.explanation.freeing import top_workload
from cathedra.insight.explanation.question import PodSubject
from cathedra.insight.explanation.report import Remedy
from cathedra.scheduler.judging import IN_MEMORY_NAME
from cathedra.semantics.owners import controller_of

_IMMUTABLE_IN_PODS: Final = frozenset(("drop node selector", "drop node affinity", "lower request"))
"""Changes of fields that the API server refuses in an existing pod."""
_OF_PODS_ALONE: Final = frozenset(("remove scheduling gates",))
"""Changes of fields that are not from the workload's template: webhooks and queues add them to pods."""


def remedy_of(
    parts: tuple[Candidate, ...], nodes: tuple[str, ...], analysis: Analysis, subject: PodSubject | None
) -> Remedy:
    """Return the remedy for proposals that work together on ``nodes``."""
    return _Remedies(analysis, subject).remedy(parts, nodes)


def merged_pod(parts: Sequence[Candidate], pod: Pod | None) -> Pod | None:
    """Return the pod with the changes of all parts, each of which changes another field."""
    merged = pod
    for part in parts:
        if part.pod is None or pod is None or merged is None:
            continue
        fields = {
            name: getattr(part.pod.spec, name)
            for name in part.pod.spec.__struct_fields__
            if getattr(part.pod.spec, name) is not getattr(pod.spec, name)
        }
        merged = replace(merged, spec=replace(merged.spec, **fields))
    return merged


class _Remedies:
    """Remedies for one subject."""

    def __init__(self, analysis: Analysis, subject: PodSubject | None) -> None:
        self.subject, self.state, self.pod = subject, analysis.state, analysis.pod
        self.workload = top_workload(self.pod, self.state) if self.pod is not None else None

    def remedy(self, parts: tuple[Candidate, ...], nodes: tuple[str, ...]) -> Remedy:
        # The claim for extended resources is no object yet: the scheduler makes it from the changed pod.
        claims = [one for part in parts for one in part.claims.values() if one.metadata.name != IN_MEMORY_NAME]
        changed: list[ResourceClaim | ResourceClaimTemplate | DeviceClass | Pod] = []
        for part in parts:
            changed.extend(part.classes.values())
        for claim in claims:
            changed.append(claim)
            template = self._template_of(claim)
            if template is not None:
                changed.append(template)
        pod = merged_pod(parts, self.pod)
        if pod is not None and pod is not self.pod:
            changed.append(self._as_it_is(pod))
        freed = tuple(_freed(claim) for part in parts for claim in part.free)
        text = _together(parts)
        edits = [edit for part in parts for edit in part.edits]
        for made, source in self._sources(parts).items():
            text = text.replace(made, source)
            edits = [
                structs.replace(edit, object=source, path=_deeper(source, edit.path)) if edit.object == made else edit
                for edit in edits
            ]
        return Remedy(
            kind=" and ".join(dict.fromkeys(part.kind for part in parts)),
            text=text + self._created_again(parts, pod),
            fits_on=nodes,
            edits=tuple(edits),
            set=(*changed, *freed, *(one for part in parts for one in part.changed)),
            removed=tuple(one for part in parts for one in part.removed),
            commands=tuple(dict.fromkeys(self._commands(parts, pod))),
        )

    def _as_it_is(self, pod: Pod) -> Pod:
        """Return the pod without the names of claims that do not exist."""
        made = self.subject.made if self.subject is not None else frozenset()
        statuses = tuple(one for one in pod.status.resource_claim_statuses if one.resource_claim_name not in made)
        return replace(pod, status=replace(pod.status, resource_claim_statuses=statuses))

    # --- objects that are changed elsewhere

    def _sources(self, parts: Sequence[Candidate]) -> dict[str, str]:
        """Objects that others generate → those others, in which alone a change lasts."""
        subject = self.subject
        if subject is None or self.pod is None:
            return {}
        namespace = subject.pod.metadata.namespace
        found = {
            f"claim {namespace}/{name}": f"template {namespace}/{origin.removeprefix('template ')}"
            for name, origin in subject.origins.items()
            if origin.startswith("template ")
        }
        owner = controller_of(self.pod)
        if owner is not None and not all(part.kind in _OF_PODS_ALONE for part in parts if part.pod is not None):
            kind, name = owner.kind, owner.name
            if self.workload is not None:
                kind, name = type(self.workload).__name__, _name_of(self.workload)
            found[f"pod {subject.name}"] = f"{kind.lower()} {namespace}/{name}"
        return found

    def _template_name(self, claim: ResourceClaim) -> str:
        origin = self.subject.origins.get(claim.metadata.name, "") if self.subject is not None else ""
        return origin.removeprefix("template ") if origin.startswith("template ") else ""

    def _template(self, claim: ResourceClaim) -> ResourceClaimTemplate | None:
        name = self._template_name(claim)
        return self.state.get(ResourceClaimTemplate, name, claim.metadata.namespace) if name else None

    def _template_of(self, claim: ResourceClaim) -> ResourceClaimTemplate | None:
        """Return the template of a generated claim, with the same change."""
        template = self._template(claim)
        return None if template is None else replace(template, spec=replace(template.spec, spec=claim.spec))

    # --- carrying it out

    def _created_again(self, parts: Sequence[Candidate], pod: Pod | None) -> str:
        """Return the objects that must be created again for the change, because their specs are immutable."""
        named: list[str] = []
        of_templates = False
        for claim in (claim for part in parts for claim in part.claims.values()):
            template = self._template(claim)
            if template is not None:
                of_templates = True
                # Without a resource version an object comes from a manifest: it can be changed before it is created.
                if template.metadata.resource_version:
                    named.append(f"template {template.metadata.namespace}/{template.metadata.name}")
            elif claim.metadata.resource_version:
                named.append(f"claim {claim.metadata.namespace}/{claim.metadata.name}")
        owner = controller_of(pod) if pod is not None else None
        immutable = any(part.kind in _IMMUTABLE_IN_PODS for part in parts)
        remade = ""
        if pod is not None and pod.metadata.resource_version:
            if owner is None and (of_templates or immutable):
                named.append(f"pod {_full_name(pod)}")
            elif owner is not None and immutable and isinstance(self.workload, (Job, CronJob)):
                named.append(f"{type(self.workload).__name__.lower()} {_full_name(self.workload)}")
            elif owner is not None and of_templates:
                remade = f"; then delete pod {_full_name(pod)}, which its {owner.kind.lower()} creates again"
        if not named:
            return remade
        named = list(dict.fromkeys(named))
        return f"; then delete {' and '.join(named)} and create {'it' if len(named) == 1 else 'them'} again{remade}"

    def _commands(self, parts: Sequence[Candidate], pod: Pod | None) -> Iterator[str]:
        gates = self.state.gates
        of_templates = False
        for part in parts:
            yield from (commands.created(one, gates) for one in part.classes.values())
            for claim in part.claims.values():
                template = self._template(claim)
                of_templates = of_templates or template is not None
                old: KubeObject | None = template
                new: KubeObject | None = self._template_of(claim)
                if template is None:
                    old, new = self.state.get(ResourceClaim, claim.metadata.name, claim.metadata.namespace), claim
                if old is not None and new is not None and _is_stored(old):
                    yield commands.replaced(old, new, gates)
        if pod is not None and self.pod is not None:
            yield from self._pod_commands(parts, self.pod, pod, remade=of_templates)
        for part in parts:
            yield from part.commands

    def _pod_commands(self, parts: Sequence[Candidate], old: Pod, new: Pod, *, remade: bool) -> Iterator[str]:
        owner, gates = controller_of(old), self.state.gates
        kinds = {part.kind for part in parts if part.pod is not None}
        if owner is not None and kinds and not kinds <= _OF_PODS_ALONE:
            # The template of a job is immutable, and the labels of its pods are those of its first UID: no single
            # command creates it again.
            if self.workload is None or isinstance(self.workload, (Job, CronJob)) or not _is_stored(self.workload):
                return
            yield commands.patched(self.workload, _with_pod(self.workload, old.spec, new.spec), gates)
            if not isinstance(self.workload, Deployment) and _is_stored(old):
                yield commands.deleted(old)
            return
        if not _is_stored(old):
            return
        if kinds & _IMMUTABLE_IN_PODS:
            yield commands.replaced(old, new, gates)
            return
        if kinds:
            yield commands.patched(old, new, gates)
        if remade:
            yield commands.deleted(old) if owner is not None else commands.recreated(old)


def _with_pod(workload: Any, old: PodSpec, new: PodSpec) -> Any:
    """Return the workload with the change of its pod in its template.

    The server and its webhooks add to pods, so that only the difference is taken over.
    """
    spec: PodSpec = workload.spec.template.spec
    for name in spec.__struct_fields__:
        before, after = getattr(old, name), getattr(new, name)
        if before is after or before == after:
            continue
        if name == "tolerations":
            after = (*spec.tolerations, *(one for one in after if one not in before))
        elif name == "containers":
            amounts = {one.name: one.resources for one in after}
            after = tuple(
                replace(one, resources=_lowered(one.resources, amounts[one.name])) if one.name in amounts else one
                for one in spec.containers
            )
        spec = replace(spec, **{name: after})
    template = replace(workload.spec.template, spec=spec)
    return replace(workload, spec=replace(workload.spec, template=template))


def _lowered(given: Any, wanted: Any) -> Any:
    """Return the requests of a template's container as the pod has them: those it does not name follow from limits."""
    lower = {name: amount for name, amount in wanted.requests.items() if given.requests.get(name) != amount}
    # Limits that must equal the requests are lowered with them.
    limits = {name: wanted.limits.get(name, amount) for name, amount in given.limits.items()}
    unnamed = {name for name in lower if name not in given.requests and limits.get(name) == lower[name]}
    requests = {**given.requests, **{k: v for k, v in lower.items() if k not in unnamed}}
    return replace(given, requests=requests, limits=limits)


def _deeper(source: str, path: str) -> str:
    """Return the path of a field in the object that generates the one it is in."""
    if source.startswith("template "):
        return f"spec.{path}"
    return f"spec.template.{path}"


def _is_stored(one: KubeObject) -> bool:
    metadata = one.metadata
    return bool(metadata.resource_version)


def _name_of(one: Any) -> str:
    return str(one.metadata.name)


def _full_name(one: Any) -> str:
    return f"{one.metadata.namespace}/{one.metadata.name}"


def _freed(claim: ResourceClaim) -> ResourceClaim:
    return replace(claim, status=replace(claim.status, allocation=None, reserved_for=()))


def _together(parts: Sequence[Candidate]) -> str:
    if len(parts) > 2 and all(part.kind == "free claim" for part in parts):
        names = [f"{claim.metadata.namespace}/{claim.metadata.name}" for part in parts for claim in part.free]
        return f"free {len(names)} claims: {', '.join(names)}"
    return ", and ".join(part.text for part in parts)
