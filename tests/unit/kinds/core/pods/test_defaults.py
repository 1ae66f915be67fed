"""Defaults of pods and templates."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core import core_v1
from cathedra.api.struct import from_dict, to_dict
from cathedra.kinds.core.pods.defaults import default_new_pod, default_pod
from tests.requirements import with_memos
from tests.unit.kinds.objects import defaulted, pod

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


@settings(max_examples=40, deadline=None)
@given(SPECS)
def test_defaults_of_pods_are_idempotent(spec: dict[str, Any]) -> None:
    once = defaulted("pods", from_dict(core_v1.Pod, {"metadata": {"name": "p", "uid": "u"}, "spec": spec}))
    assert defaulted("pods", once) is once


@with_memos
@given(SPECS)
def test_new_pods_of_one_spec_share_it_with_the_defaults_of_any_pod(spec: dict[str, Any]) -> None:
    first, second = (from_dict(core_v1.Pod, {"metadata": {"name": name}, "spec": spec}) for name in ("a", "b"))
    filled = default_new_pod(first)
    assert filled == default_pod(first)
    assert default_new_pod(second).spec is filled.spec
    assert default_new_pod(filled) == filled


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


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("i", "Always"),
        ("i:latest", "Always"),
        ("registry.example:5000/team/i", "Always"),
        ("Host/i", "Always"),
        ("i:1", "IfNotPresent"),
        (f"i@sha256:{'a' * 64}", "IfNotPresent"),
        ("Image", "IfNotPresent"),
        ("a b", "IfNotPresent"),
        ("é", "IfNotPresent"),
        ("a" * 64, "IfNotPresent"),
    ],
)
def test_what_is_no_reference_to_an_image_has_no_newest_one(image: str, policy: str) -> None:
    values = to_dict(defaulted("pods", pod({"image": image})))
    assert values["spec"]["containers"][0]["imagePullPolicy"] == policy
