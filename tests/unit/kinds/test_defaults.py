"""What is filled in, and that filling in twice changes nothing more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core import apps_v1, batch_v1, core_v1
from cathedra.api.struct import from_dict, to_dict
from tests.unit.kinds.objects import NOW, claim, context, definition_of, exactly, pod, resource_slice
from tests.unit.kinds.resource.test_conversion import claims, slices

CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(("a", "b"))},
        optional={
            "image": st.sampled_from(("i", "i:latest", "i:1", "registry:5000/i")),
            "ports": st.just([{"containerPort": 80}]),
            "livenessProbe": st.just({"httpGet": {"port": 80}}),
            "env": st.just([{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
            "resources": st.just({"limits": {"cpu": "1"}}),
        },
    ),
    max_size=2,
)
SPECS = st.fixed_dictionaries(
    {"containers": CONTAINERS},
    optional={
        "initContainers": CONTAINERS,
        "hostNetwork": st.booleans(),
        "serviceAccountName": st.just("x"),
        "volumes": st.just([{"name": "v"}, {"name": "w", "secret": {"secretName": "s"}}]),
    },
)


def defaulted(plural: str, obj: Any) -> Any:
    return definition_of(plural).strategy.default(obj, context())


@settings(max_examples=40, deadline=None)
@given(SPECS)
def test_defaults_of_pods_are_idempotent(spec: dict[str, Any]) -> None:
    once = defaulted("pods", from_dict(core_v1.Pod, {"metadata": {"name": "p"}, "spec": spec}))
    assert defaulted("pods", once) == once


@settings(max_examples=40, deadline=None)
@given(claims)
def test_defaults_of_claims_are_idempotent(values: dict[str, Any]) -> None:
    kind = definition_of("resourceclaims").type
    once = defaulted("resourceclaims", from_dict(kind, values))
    assert defaulted("resourceclaims", once) == once


@settings(max_examples=40, deadline=None)
@given(slices)
def test_defaults_of_slices_are_idempotent(values: dict[str, Any]) -> None:
    kind = definition_of("resourceslices").type
    once = defaulted("resourceslices", from_dict(kind, values))
    assert defaulted("resourceslices", once) == once


@pytest.mark.parametrize(
    ("plural", "kind"),
    [
        ("deployments", apps_v1.Deployment),
        ("replicasets", apps_v1.ReplicaSet),
        ("statefulsets", apps_v1.StatefulSet),
        ("daemonsets", apps_v1.DaemonSet),
        ("jobs", batch_v1.Job),
        ("cronjobs", batch_v1.CronJob),
    ],
)
def test_defaults_of_workloads_are_idempotent(plural: str, kind: Any) -> None:
    once = defaulted(plural, kind())
    assert defaulted(plural, once) == once
    assert once != kind()


def test_a_request_is_for_exactly_one_device() -> None:
    made = defaulted("resourceclaims", claim(exactly(), exactly("s", allocationMode="All")))
    first, second = (request.exactly for request in made.spec.devices.requests)
    assert (first.allocation_mode, first.count) == ("ExactCount", 1)
    assert (second.allocation_mode, second.count) == ("All", 0)


def test_taints_of_slices_are_dated() -> None:
    made = defaulted("resourceslices", resource_slice({"name": "d", "taints": [{"key": "k", "effect": "NoExecute"}]}))
    assert made.spec.devices[0].taints[0].time_added.timestamp == NOW


def test_a_pod_is_filled_in() -> None:
    values = to_dict(defaulted("pods", pod({"resources": {"limits": {"cpu": "1"}}})))
    spec = values["spec"]
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["schedulerName"]) == (
        "Always",
        "ClusterFirst",
        "default-scheduler",
    )
    container = spec["containers"][0]
    assert (container["imagePullPolicy"], container["terminationMessagePolicy"]) == ("Always", "File")
    assert container["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}


def test_a_deployment_rolls_a_quarter_at_a_time() -> None:
    made = to_dict(defaulted("deployments", apps_v1.Deployment()))
    assert made["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert made["spec"]["replicas"] == 1
