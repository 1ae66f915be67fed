"""Roles and bindings."""

from __future__ import annotations

from typing import Any

from cathedra.api.core import rbac_v1
from tests.unit.kinds.objects import problems_of, problems_of_change


def binding(role: str = "r", *subjects: dict[str, str]) -> dict[str, Any]:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return {"roleRef": reference, "subjects": list(subjects)}


def test_a_role_gives_something_on_something() -> None:
    rules = [{"verbs": []}, {"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}]
    assert problems_of("roles", rbac_v1.Role, {"rules": rules}) == [
        "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        "rules[0].resources: Required value: resource rules must supply at least one resource",
        'rules[1].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
        'rules[1].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and '
        "non-resource URLs",
        "rules[0].verbs: Required value",
    ]


def test_a_binding_names_its_subjects_and_keeps_its_role() -> None:
    plural, kind = "clusterrolebindings", rbac_v1.ClusterRoleBinding
    good = {"kind": "ServiceAccount", "name": "a", "namespace": "n"}
    assert problems_of(plural, kind, binding("r", good, {"kind": "User", "name": "u"})) == []
    assert problems_of(plural, kind, binding("r", {"kind": "ServiceAccount", "name": "a"}, {"kind": "Dog"})) == [
        "subjects[0].namespace: Required value",
        'subjects[1].kind: Unsupported value: "Dog": supported values: "ServiceAccount", "User", "Group"',
        "subjects[1].name: Required value",
    ]
    (text,) = problems_of_change(plural, kind, binding(), binding("other"))
    assert text.startswith("roleRef: Invalid value: ")
    assert text.endswith("cannot change roleRef")
