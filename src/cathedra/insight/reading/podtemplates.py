"""Pod templates of kinds that other projects define: batch systems and sets of pods.

Their controllers do not run here. What matters for devices is in their pod templates, so that each template is read as
a job with as many pods. `KNOWN` has the paths of widely used kinds; `parse_paths` reads further ones from an option.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from cathedra.allocation.errors import InvalidInput
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.scheme import GroupVersionKind


@dataclass(frozen=True, slots=True)
class PodTemplatePath:
    """The place of a pod template in objects of a kind.

    ``[*]`` stands for all elements of a list, or all values of a map.
    """

    template: str
    counts: tuple[str, ...] = ()
    """Fields whose product is the number of pods; a missing one counts as 1. A ``[*]`` is the same element as in
    ``template``."""
    first: str = ""
    """A field with the template of one pod of each group, which the last of ``counts`` includes."""
    name: str = ""
    """The name of its pods among those of the object, for a template without ``[*]``."""
    scheduler: str = ""
    """The scheduler of pods that name none, where it is not Kubernetes' own."""


PodTemplates: TypeAlias = Mapping[tuple[str, str], tuple[PodTemplatePath, ...]]
"""(group, kind) → the pod templates of its objects."""


def _ray(prefix: str) -> tuple[PodTemplatePath, ...]:
    workers = f"{prefix}.workerGroupSpecs[*]"
    return (
        PodTemplatePath(f"{prefix}.headGroupSpec.template", name="head"),
        PodTemplatePath(f"{workers}.template", (f"{workers}.replicas", f"{workers}.numOfHosts")),
    )


def _jobs(prefix: str) -> tuple[PodTemplatePath, ...]:
    job = f"{prefix}.replicatedJobs[*]"
    return (PodTemplatePath(f"{job}.template.spec.template", (f"{job}.replicas", f"{job}.template.spec.parallelism")),)


def _replica_specs(field: str) -> tuple[PodTemplatePath, ...]:
    return (PodTemplatePath(f"spec.{field}[*].template", (f"spec.{field}[*].replicas",)),)


_LEADER: Final = "spec.leaderWorkerTemplate.leaderTemplate"
KNOWN: Final[PodTemplates] = {
    ("jobset.x-k8s.io", "JobSet"): _jobs("spec"),
    ("ray.io", "RayCluster"): _ray("spec"),
    ("ray.io", "RayJob"): (
        *_ray("spec.rayClusterSpec"),
        PodTemplatePath("spec.submitterPodTemplate", name="submitter"),
    ),
    ("ray.io", "RayService"): _ray("spec.rayClusterConfig"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (
        PodTemplatePath(_LEADER, ("spec.replicas",), name="leader"),
        PodTemplatePath(
            "spec.leaderWorkerTemplate.workerTemplate",
            ("spec.replicas", "spec.leaderWorkerTemplate.size"),
            first=_LEADER,
            name="worker",
        ),
    ),
    ("batch.volcano.sh", "Job"): (
        PodTemplatePath("spec.tasks[*].template", ("spec.tasks[*].replicas",), scheduler="volcano"),
    ),
    ("kubeflow.org", "PyTorchJob"): _replica_specs("pytorchReplicaSpecs"),
    ("kubeflow.org", "TFJob"): _replica_specs("tfReplicaSpecs"),
    ("kubeflow.org", "MPIJob"): _replica_specs("mpiReplicaSpecs"),
    ("kubeflow.org", "XGBoostJob"): _replica_specs("xgbReplicaSpecs"),
    ("kubeflow.org", "PaddleJob"): _replica_specs("paddleReplicaSpecs"),
    ("kubeflow.org", "JAXJob"): _replica_specs("jaxReplicaSpecs"),
    ("trainer.kubeflow.org", "TrainingRuntime"): _jobs("spec.template.spec"),
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"): _jobs("spec.template.spec"),
}
"""Kinds whose pods are read."""
_OPTION: Final = re.compile(r"([a-z0-9.-]+)/([A-Za-z0-9]+)=([A-Za-z0-9_.\[\]*-]+?)(?:,([A-Za-z0-9_.\[\]*-]+))?")
_PLACE: Final = re.compile(r"\[([^\]]+)\]|([^.\[\]]+)")
_NAME_LENGTH: Final = 52
"""Characters of a job's name that leave room for the suffixes of its pods."""


def parse_paths(words: Iterable[str]) -> PodTemplates:
    """Return the known kinds with those of an option, ``GROUP/KIND=PATH[,COUNT]``, in their place or beside them.

    Raises:
        InvalidInput: a word has another form.
    """
    found: dict[tuple[str, str], tuple[PodTemplatePath, ...]] = {}
    for word in words:
        read = _OPTION.fullmatch(word)
        if read is None:
            raise InvalidInput(
                f"--pod-template {word!r} is not of the form GROUP/KIND=PATH[,COUNT], as "
                "argoproj.io/Rollout=spec.template,spec.replicas"
            )
        key = (read[1], read[2])
        path = PodTemplatePath(read[3], (read[4],) if read[4] else ())
        found[key] = (*found.get(key, ()), path)
    return {**KNOWN, **found}


@dataclass(frozen=True, slots=True)
class FoundTemplate:
    """A pod template of an object."""

    path: str
    """Its field, as ``spec.replicatedJobs[0].template.spec.template``."""
    value: Mapping[str, Any]
    pods: int
    name: str
    """Name of its element in the object, as «workers»; "" for a template that is not in a list."""


def templates_in(value: Mapping[str, Any], gvk: GroupVersionKind, known: PodTemplates) -> Iterator[FoundTemplate]:
    """Yield the pod templates of an object, if its kind is known."""
    for one in known.get((gvk.group, gvk.kind), ()):
        for places, name, template in _expanded(value, _steps(one.template), ()):
            if not isinstance(template, Mapping) or not isinstance(template.get("spec"), Mapping):
                continue
            counts = [_number(value, path, places) for path in one.counts]
            if one.first and counts and _at(value, _steps(one.first), iter(places)) is not None:
                counts[-1] = max(counts[-1] - 1, 0)
            pods = 1
            for count in counts:
                pods *= count
            given = {**template, "spec": _with_scheduler(template["spec"], value, one.scheduler)}
            yield FoundTemplate(_written(one.template, places), given, pods, name or one.name)


def job_of(found: FoundTemplate, owner: Mapping[str, Any]) -> JSONObject:
    """Return a job with the pods of a template, in the namespace of the object that it is from."""
    metadata = owner.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    base = str(metadata.get("name") or metadata.get("generateName") or str(owner.get("kind", "")).lower())
    name = "-".join(part for part in (base.strip("-"), found.name.lower()) if part)[:_NAME_LENGTH].rstrip("-.")
    template_metadata = found.value.get("metadata")
    template_metadata = template_metadata if isinstance(template_metadata, Mapping) else {}
    kept = {field: template_metadata[field] for field in ("labels", "annotations") if field in template_metadata}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {})},
        "spec": {
            "parallelism": found.pods,
            "completions": found.pods,
            # The restart policy decides nothing about devices, and a job does not take Always.
            "template": {"metadata": kept, "spec": {**found.value["spec"], "restartPolicy": "Never"}},
        },
    }


def _with_scheduler(spec: Mapping[str, Any], owner: Mapping[str, Any], default: str) -> Mapping[str, Any]:
    if not default or spec.get("schedulerName"):
        return spec
    body = owner.get("spec")
    named = body.get("schedulerName") if isinstance(body, Mapping) else None
    return {**spec, "schedulerName": named or default}


def _steps(path: str) -> tuple[str, ...]:
    return tuple(f"[{place}]" if place else name for place, name in _PLACE.findall(path))


def _expanded(
    value: Any, steps: Sequence[str], places: tuple[int | str, ...], name: str = ""
) -> Iterator[tuple[tuple[int | str, ...], str, Any]]:
    """Yield the elements that ``[*]`` stood for, the name of the last one, and the value of the path."""
    if not steps:
        yield places, name, value
        return
    first, rest = steps[0], steps[1:]
    if first != "[*]":
        if isinstance(value, Mapping) and first in value:
            yield from _expanded(value[first], rest, places, name)
        return
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _expanded(one, rest, (*places, str(key)), str(key))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            named = (one.get("name") or one.get("groupName")) if isinstance(one, Mapping) else None
            yield from _expanded(one, rest, (*places, number), str(named or number))


def _at(value: Any, steps: Sequence[str], places: Iterator[int | str]) -> Any:
    """Return the value of a path whose ``[*]`` stand for ``places``; None if there is none."""
    for step in steps:
        key: int | str = next(places, "") if step == "[*]" else step
        if isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        elif isinstance(value, Mapping):
            value = value.get(key)
        else:
            return None
    return value


def _number(value: Any, path: str, places: Sequence[int | str]) -> int:
    found = _at(value, _steps(path), iter(places))
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else 1


def _written(path: str, places: Sequence[int | str]) -> str:
    left = iter(places)
    return re.sub(r"\[\*\]", lambda _: f"[{place}]" if isinstance(place := next(left), int) else f".{place}", path)
