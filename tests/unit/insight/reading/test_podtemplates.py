"""Pods of kinds of other projects are read from their templates, as many as their controllers would create."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.allocation.errors import InvalidInput
from cathedra.api.core.batch_v1 import Job
from cathedra.api.scheme import GroupVersionKind
from cathedra.insight import PlannedChanges, explain, lint, read_dump, simulate
from cathedra.insight.reading.manifests import ManifestOptions, read_manifests
from cathedra.insight.reading.podtemplates import KNOWN, job_of, parse_paths, templates_in
from cathedra.insight.reading.state import ClusterState
from tests.insight.building import device_class, gpus, node, request, template
from tests.unit.insight.linting.manifests import yaml_of

CLAIMS = [{"name": "d", "resourceClaimTemplateName": "t"}]
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "x"}], "resourceClaims": CLAIMS}}
BASE = [node(), device_class(), gpus(4), template("t", request())]


def made(api_version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "train"}, "spec": spec}


RAY = {
    "headGroupSpec": {"template": TEMPLATE},
    "workerGroupSpecs": [{"groupName": "big", "replicas": 2, "numOfHosts": 2, "template": TEMPLATE}],
}
JOBS = [{"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 3, "template": TEMPLATE}}}]
EMPTY = ClusterState.of(())
KINDS = [
    (made("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=JOBS), {"train-workers": 6}),
    (made("ray.io/v1", "RayCluster", **RAY), {"train-head": 1, "train-big": 4}),
    (made("ray.io/v1", "RayJob", rayClusterSpec=RAY), {"train-head": 1, "train-big": 4}),
    (
        made(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            replicas=2,
            leaderWorkerTemplate={"size": 4, "workerTemplate": TEMPLATE},
        ),
        {"train-worker": 8},
    ),
    (
        made(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            replicas=2,
            leaderWorkerTemplate={"size": 4, "workerTemplate": TEMPLATE, "leaderTemplate": TEMPLATE},
        ),
        {"train-leader": 2, "train-worker": 6},
    ),
    (
        made("batch.volcano.sh/v1alpha1", "Job", tasks=[{"name": "w", "replicas": 3, "template": TEMPLATE}]),
        {"train-w": 3},
    ),
    (
        made(
            "kubeflow.org/v1",
            "PyTorchJob",
            pytorchReplicaSpecs={"Master": {"template": TEMPLATE}, "Worker": {"replicas": 3, "template": TEMPLATE}},
        ),
        {"train-master": 1, "train-worker": 3},
    ),
    (
        made("trainer.kubeflow.org/v1alpha1", "TrainingRuntime", template={"spec": {"replicatedJobs": JOBS}}),
        {"train-workers": 6},
    ),
]


@pytest.mark.parametrize(("one", "jobs"), KINDS, ids=lambda value: value.get("kind", "") if "kind" in value else "")
def test_each_template_is_a_job_with_the_pods_of_the_controller(one: dict[str, Any], jobs: dict[str, int]) -> None:
    read = read_manifests(one, EMPTY)
    objects, (note,) = read.objects, read.notes
    found = [job for job in objects if isinstance(job, Job)]
    assert {job.metadata.name: job.spec.parallelism for job in found} == jobs
    assert note.text.startswith(f"{one['kind']} train: its controller does not run here")


def test_the_path_is_that_of_the_element() -> None:
    (found,) = templates_in(KINDS[0][0], GroupVersionKind("jobset.x-k8s.io", "v1alpha2", "JobSet"), KNOWN)
    assert found.path == "spec.replicatedJobs[0].template.spec.template"
    assert job_of(found, KINDS[0][0])["metadata"] == {"name": "train-workers"}


def test_pods_of_volcano_are_for_its_scheduler() -> None:
    answer = explain(read_dump(BASE), manifests=KINDS[5][0])
    assert any("another scheduler decides, volcano" in part.summary for part in answer.flat())


def test_a_simulation_places_the_pods_of_a_job_set() -> None:
    found = simulate(read_dump(BASE), PlannedChanges(apply=KINDS[0][0]), copies=0)
    assert (len(found.placed), sum(len(one.pods) for one in found.pending)) == (4, 2)


def test_claims_of_a_job_set_are_checked() -> None:
    wrong = {
        **TEMPLATE["spec"],
        "containers": [{"name": "c", "resources": {"claims": [{"name": "d", "request": "x"}]}}],
    }
    jobs = [{"name": "w", "template": {"spec": {"template": {"spec": wrong}}}}]
    report = lint(yaml_of(template("t", request()), made("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=jobs)))
    assert [(one.rule, one.path) for one in report.findings] == [
        (
            "unknown-request",
            "spec.replicatedJobs[0].template.spec.template.spec.containers[0].resources.claims[0].request",
        )
    ]
    assert report.objects == 2


ROLLOUT = made("argoproj.io/v1alpha1", "Rollout", template=TEMPLATE, replicas=3)


def test_another_kind_is_named_and_read_with_its_path() -> None:
    read = read_manifests(ROLLOUT, EMPTY)
    objects, (note,) = read.objects, read.notes
    assert (objects, note.problem) == ((), "unknown kind")
    assert [one.text for one in lint(yaml_of(ROLLOUT)).notes] == [note.text]
    templates = parse_paths(["argoproj.io/Rollout=spec.template,spec.replicas"])
    (job,) = read_manifests(ROLLOUT, EMPTY, ManifestOptions(templates=templates)).objects
    assert isinstance(job, Job)
    assert (job.metadata.name, job.spec.parallelism) == ("train", 3)


@pytest.mark.parametrize("word", ["Rollout=spec", "argoproj.io/Rollout", "a/B=", "a/B=x,y,z"])
def test_a_path_of_another_form_is_refused(word: str) -> None:
    with pytest.raises(InvalidInput, match="--pod-template"):
        parse_paths([word])
