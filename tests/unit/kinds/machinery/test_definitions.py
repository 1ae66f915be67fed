"""The kinds of the machinery's own groups."""

from __future__ import annotations

import pytest

from cathedra.api.core.node_v1 import RuntimeClass
from cathedra.api.struct import from_dict
from cathedra.kinds.machinery.definitions import machinery_definitions
from tests.unit.kinds.objects import gates, row

DEFINED = machinery_definitions(gates())
KUBERNETES = {
    "rbac.authorization.k8s.io": {"roles", "clusterroles", "rolebindings", "clusterrolebindings"},
    "admissionregistration.k8s.io": {
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
    },
    "apiextensions.k8s.io": {"customresourcedefinitions"},
    "policy": {"poddisruptionbudgets"},
    "node.k8s.io": {"runtimeclasses"},
    "coordination.k8s.io": {"leases"},
    "certificates.k8s.io": {"certificatesigningrequests"},
    "networking.k8s.io": {"networkpolicies", "ingresses", "ingressclasses", "ipaddresses", "servicecidrs"},
    "autoscaling": {"horizontalpodautoscalers"},
    "storage.k8s.io": {
        "storageclasses",
        "csidrivers",
        "csinodes",
        "csistoragecapacities",
        "volumeattachments",
        "volumeattributesclasses",
    },
    "flowcontrol.apiserver.k8s.io": {"flowschemas", "prioritylevelconfigurations"},
}


@pytest.mark.parametrize("group", KUBERNETES)
def test_a_group_of_the_machinery_has_its_kinds(group: str) -> None:
    assert {definition.plural for definition in DEFINED if definition.group == group} >= KUBERNETES[group]


def test_what_configures_admission_is_one_category() -> None:
    extensions = {d.plural for d in DEFINED if "api-extensions" in d.categories}
    groups = ("admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io")
    assert extensions == {d.plural for d in DEFINED if d.group in groups}


def test_a_runtime_class_shows_its_handler() -> None:
    assert row("runtimeclasses", from_dict(RuntimeClass, {"handler": "kata"}))["Handler"] == "kata"
