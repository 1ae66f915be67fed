"""Rules of what makes pods, of roles, and of the small kinds around them."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import apps_v1, batch_v1, coordination_v1, core_v1, rbac_v1, scheduling_v1, scheduling_v1alpha3
from cathedra.api.struct import from_dict, replace
from tests.unit.kinds.objects import context, created, definition_of, texts, updated

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}


def complaints(plural: str, kind: Any, values: dict[str, Any], **more: Any) -> list[str]:
    return texts(created(definition_of(plural).strategy, from_dict(kind, values), context(everything=True))[1])


def changed(plural: str, kind: Any, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    strategy = definition_of(plural).strategy
    stored, errors = created(strategy, from_dict(kind, old), context(everything=True))
    assert errors == []
    return texts(updated(strategy, from_dict(kind, new), stored, context(everything=True))[1])


APPS = [
    ("deployments", apps_v1.Deployment, "ReplicaSet"),
    ("replicasets", apps_v1.ReplicaSet, "ReplicaSet"),
    ("statefulsets", apps_v1.StatefulSet, "StatefulSet"),
    ("daemonsets", apps_v1.DaemonSet, "DaemonSet"),
]


@pytest.mark.parametrize(("plural", "kind", "owner"), APPS)
def test_a_workload_selects_the_pods_it_makes(plural: str, kind: Any, owner: str) -> None:
    assert complaints(plural, kind, {"spec": SELECTED}) == []
    other = {**SELECTED, "selector": {"matchLabels": {"a": "c"}}}
    assert complaints(plural, kind, {"spec": other}) == [
        'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`'
    ]
    assert complaints(plural, kind, {"spec": {"template": TEMPLATE}}) == ["spec.selector: Required value"]
    (text,) = complaints(plural, kind, {"spec": {**SELECTED, "selector": {}}})
    assert text.startswith("spec.selector: Invalid value: {}: empty selector is invalid for")


@pytest.mark.parametrize(("plural", "kind", "owner"), APPS)
def test_a_workload_keeps_its_pods_running(plural: str, kind: Any, owner: str) -> None:
    spec = {**TEMPLATE["spec"], "restartPolicy": "Never", "activeDeadlineSeconds": 1}
    template = {**TEMPLATE, "spec": spec}
    assert complaints(plural, kind, {"spec": {**SELECTED, "template": template}}) == [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        f"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in {owner} is not Supported",
    ]


@pytest.mark.parametrize(("plural", "kind"), [(plural, kind) for plural, kind, _ in APPS])
def test_the_selector_of_a_workload_stays(plural: str, kind: Any) -> None:
    template = {**TEMPLATE, "metadata": {"labels": {"a": "b", "c": "d"}}}
    old = {"spec": {**SELECTED, "template": template}}
    (text,) = changed(plural, kind, old, {"spec": {**old["spec"], "selector": {"matchLabels": {"c": "d"}}}})
    assert ": Invalid value: " in text or ": Forbidden: updates to statefulset spec" in text


def test_a_deployment_cannot_stand_still() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}
    assert complaints("deployments", apps_v1.Deployment, {"spec": {**SELECTED, "strategy": strategy}}) == [
        'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0'
    ]


def job(**spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    return {"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": pod}, **spec}}


def test_a_job_marks_its_pods_and_itself() -> None:
    made, errors = created(definition_of("jobs").strategy, from_dict(batch_v1.Job, job()), context())
    assert errors == []
    own = {
        "controller-uid": "u",
        "job-name": "j",
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-name": "j",
    }
    assert made.spec.template.metadata.labels == own
    assert made.metadata.labels == own
    assert made.spec.selector.match_labels == {"batch.kubernetes.io/controller-uid": "u"}


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"parallelism": -1}, "spec.parallelism: Invalid value: -1: must be greater than or equal to 0"),
        ({"completionMode": "Indexed"}, "spec.completions: Required value: when completion mode is Indexed"),
    ],
)
def test_a_job_is_checked(spec: dict[str, Any], wanted: str) -> None:
    spec = {"parallelism": 1, **spec}
    assert complaints("jobs", batch_v1.Job, job(**spec)) == [wanted]


def cronjob(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "c"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job()["spec"]}, **spec},
    }


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, []),
        ({"schedule": ""}, ["spec.schedule: Required value"]),
        ({"schedule": "x"}, ['spec.schedule: Invalid value: "x": expected exactly 5 fields, found 1: [x]']),
        ({"schedule": "@often"}, ['spec.schedule: Invalid value: "@often": unrecognized descriptor: @often']),
        (
            {"concurrencyPolicy": "Maybe"},
            ['spec.concurrencyPolicy: Unsupported value: "Maybe": supported values: "Allow", "Forbid", "Replace"'],
        ),
        ({"timeZone": "Moon"}, ['spec.timeZone: Invalid value: "Moon": unknown time zone Moon']),
        (
            {"failedJobsHistoryLimit": -1},
            ["spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0"],
        ),
    ],
)
def test_a_cron_job_is_checked(spec: dict[str, Any], wanted: list[str]) -> None:
    assert complaints("cronjobs", batch_v1.CronJob, cronjob(**spec)) == wanted


def test_a_role_gives_something_on_something() -> None:
    rules = [{"verbs": []}, {"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}]
    assert complaints("roles", rbac_v1.Role, {"rules": rules}) == [
        "rules[0].verbs: Required value: verbs must contain at least one value",
        "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        "rules[0].resources: Required value: resource rules must supply at least one resource",
        'rules[1].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
        'rules[1].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and '
        "non-resource URLs",
    ]


def binding(role: str = "r", *subjects: dict[str, str]) -> dict[str, Any]:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return {"roleRef": reference, "subjects": list(subjects)}


def test_a_binding_names_somebody_and_keeps_its_role() -> None:
    plural, kind = "clusterrolebindings", rbac_v1.ClusterRoleBinding
    good = {"kind": "ServiceAccount", "name": "a", "namespace": "n"}
    assert complaints(plural, kind, binding("r", good, {"kind": "User", "name": "u"})) == []
    assert complaints(plural, kind, binding("r", {"kind": "ServiceAccount", "name": "a"}, {"kind": "Dog"})) == [
        "subjects[0].namespace: Required value",
        "subjects[1].name: Required value",
        'subjects[1].kind: Unsupported value: "Dog": supported values: "Group", "ServiceAccount", "User"',
    ]
    (text,) = changed(plural, kind, binding(), binding("other"))
    assert text.startswith("roleRef: Invalid value: ")
    assert text.endswith("cannot change roleRef")


def test_what_was_declared_immutable_stays() -> None:
    old = {"data": {"a": "b"}, "immutable": True}
    assert changed("configmaps", core_v1.ConfigMap, old, {"data": {"a": "c"}}) == [
        "immutable: Forbidden: field is immutable when `immutable` is set",
        "data: Forbidden: field is immutable when `immutable` is set",
    ]
    secret = {"type": "Opaque", "data": {"a": "Yg=="}}
    assert changed("secrets", core_v1.Secret, secret, {**secret, "type": "x"}) == [
        'type: Invalid value: "x": field is immutable'
    ]


def test_keys_of_configuration_are_file_names() -> None:
    (text,) = complaints("configmaps", core_v1.ConfigMap, {"data": {"a/b": "x"}})
    assert text.startswith('data[a/b]: Invalid value: "a/b": a valid config key must consist of')


def test_a_lease_lasts() -> None:
    assert complaints("leases", coordination_v1.Lease, {"spec": {"leaseDurationSeconds": 0}}) == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"
    ]


def test_the_value_of_a_priority_stays() -> None:
    assert changed("priorityclasses", scheduling_v1.PriorityClass, {"value": 1}, {"value": 2}) == [
        "value: Forbidden: may not be changed in an update."
    ]


POLICY: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}
GROUP: dict[str, Any] = {"spec": {**POLICY, "resourceClaims": [{"name": "a", "resourceClaimName": "x"}]}}


@pytest.mark.parametrize(
    ("claims", "wanted"),
    [
        (GROUP["spec"]["resourceClaims"], []),
        ([{"name": "a"}], ['spec.resourceClaims[0]: Invalid value: "": must specify one of: `resourceClaimName`']),
        ([{"name": f"c{n}", "resourceClaimName": "x"} for n in range(5)], ["spec.resourceClaims: Too many: 5"]),
    ],
)
def test_claims_of_a_pod_group_are_checked(claims: list[Any], wanted: list[str]) -> None:
    found = complaints("podgroups", scheduling_v1alpha3.PodGroup, {"spec": {**POLICY, "resourceClaims": claims}})
    assert [text.startswith(beginning) for text, beginning in zip(found, wanted, strict=True)] == [True] * len(wanted)


def test_without_the_gate_a_pod_group_has_no_claims() -> None:
    group = from_dict(scheduling_v1alpha3.PodGroup, GROUP)
    made, errors = created(definition_of("podgroups").strategy, group, context(GenericWorkload=True))
    assert (errors, made.spec.resource_claims) == ([], ())
    kept, _ = updated(definition_of("podgroups").strategy, group, replace(group), context(GenericWorkload=True))
    assert kept.spec.resource_claims == group.spec.resource_claims


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ({"gang": {"minCount": 2}}, []),
        ({}, ['Invalid value: "": must specify one of: `basic`, `gang`']),
        (
            {"basic": {}, "gang": {"minCount": 1}},
            ['Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`'],
        ),
        ({"gang": {"minCount": 0}}, ["gang.minCount: Required value"]),
    ],
)
def test_a_group_is_scheduled_in_one_way(policy: dict[str, Any], wanted: list[str]) -> None:
    found = complaints("podgroups", scheduling_v1alpha3.PodGroup, {"spec": {"schedulingPolicy": policy}})
    path = "spec.schedulingPolicy"
    assert found == [f"{path}.{text}" if text.startswith("gang") else f"{path}: {text}" for text in wanted]


def test_templates_of_a_workload_have_names_of_their_own() -> None:
    template = {"name": "t", "schedulingPolicy": {"basic": {}}}
    workload = {"spec": {"podGroupTemplates": [template, template, {**template, "name": ""}]}}
    assert complaints("workloads", scheduling_v1alpha3.Workload, workload) == [
        'spec.podGroupTemplates[1]: Duplicate value: {"name":"t"}',
        "spec.podGroupTemplates[2].name: Required value",
    ]
