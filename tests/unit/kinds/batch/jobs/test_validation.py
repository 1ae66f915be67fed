"""Rules of jobs."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.batch_v1 import Job
from cathedra.api.struct import from_dict, replace
from tests.unit.kinds.objects import context, created, definition_of, texts, updated

TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}


def job(template: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **spec: Any) -> Job:
    metadata = {"name": "j", "namespace": "default", "uid": "u"}
    whole = {"metadata": metadata, "spec": {"template": template or TEMPLATE, **spec}, "status": status or {}}
    return from_dict(Job, whole)


def stored(made: Job) -> Job:
    found: Job = created(definition_of("jobs").strategy, made, context())[0]
    return found


def problems(made: Job) -> list[str]:
    return texts(created(definition_of("jobs").strategy, made, context())[1])


@pytest.mark.parametrize(
    "field", ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"]
)
def test_numbers_are_not_negative(field: str) -> None:
    assert problems(job(**{field: -1})) == [f"spec.{field}: Invalid value: -1: must be greater than or equal to 0"]


def test_an_indexed_job_says_how_many_indexes() -> None:
    assert problems(job(completionMode="Indexed", completions=2)) == []
    wanted = "spec.completions: Required value: when completion mode is Indexed"
    assert problems(job(completionMode="Indexed", parallelism=1)) == [wanted]


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ("OnFailure", []),
        ("Always", ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']),
        ("", ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']),
    ],
)
def test_pods_of_a_job_come_to_an_end(policy: str, wanted: list[str]) -> None:
    template = {"spec": {**TEMPLATE["spec"], "restartPolicy": policy}}
    assert [text for text in problems(job(template)) if "restartPolicy" in text] == wanted


def change(old: Job, **spec: Any) -> list[str]:
    new = from_dict(Job, {"spec": spec})
    changed = {name: getattr(new.spec, name) for name in ("completions", "parallelism") if getattr(new.spec, name)}
    return texts(
        updated(definition_of("jobs").strategy, replace(old, spec=replace(old.spec, **changed)), old, context())[1]
    )


def test_completions_are_fixed_unless_an_indexed_job_grows_as_a_whole() -> None:
    plain = stored(job(completions=2, parallelism=2))
    assert change(plain, completions=3) == ["spec.completions: Invalid value: 3: field is immutable"]
    indexed = stored(job(completions=2, parallelism=2, completionMode="Indexed"))
    assert change(indexed, completions=3) == ["spec.completions: Invalid value: 3: field is immutable"]
    assert change(indexed, completions=3, parallelism=3) == []


MOVED = {**TEMPLATE["spec"], "nodeSelector": {"disk": "ssd"}}
RESIZED = {
    **TEMPLATE["spec"],
    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}}],
}
NEW_IMAGE = {**TEMPLATE["spec"], "containers": [{"name": "c", "image": "other"}]}
NODES = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
NEAR_NODES = {**TEMPLATE["spec"], "affinity": {"nodeAffinity": NODES}}
NEAR_PODS = {**TEMPLATE["spec"], "affinity": {"podAffinity": {}}}
NEVER_RAN: dict[str, Any] = {}
RAN = {"startTime": "2026-01-01T00:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]}
STILL_RUNS = {**RAN, "active": 1}


@pytest.mark.parametrize(
    ("release", "status", "spec", "allowed"),
    [
        ("1.34", NEVER_RAN, MOVED, True),
        ("1.34", RAN, MOVED, False),
        ("1.35", RAN, MOVED, False),
        ("1.36", RAN, MOVED, True),
        ("1.37", RAN, MOVED, True),
        ("1.37", STILL_RUNS, MOVED, False),
        ("1.37", NEVER_RAN, NEAR_NODES, True),
        ("1.37", NEVER_RAN, NEAR_PODS, False),
        ("1.37", NEVER_RAN, NEW_IMAGE, False),
        ("1.35", NEVER_RAN, RESIZED, False),
        ("1.36", NEVER_RAN, RESIZED, True),
        ("1.36", RAN, RESIZED, True),
        ("1.36", STILL_RUNS, RESIZED, False),
    ],
)
def test_what_may_change_in_the_template_of_a_suspended_job(
    release: str, status: dict[str, Any], spec: dict[str, Any], allowed: bool
) -> None:
    old = replace(stored(job(suspend=True)), status=job(status=status).status)
    template = replace(old.spec.template, spec=stored(job({"spec": spec}, suspend=True)).spec.template.spec)
    new = replace(old, spec=replace(old.spec, template=template))
    told = texts(updated(definition_of("jobs").strategy, new, old, context(release))[1])
    assert any("spec.template" in one and "field is immutable" in one for one in told) != allowed


def test_a_running_job_keeps_its_template() -> None:
    old = stored(job())
    template = replace(old.spec.template, spec=stored(job({"spec": MOVED})).spec.template.spec)
    new = replace(old, spec=replace(old.spec, template=template))
    told = texts(updated(definition_of("jobs").strategy, new, old, context())[1])
    assert any("spec.template" in one for one in told)
