"""The kinds of the group apps."""

from __future__ import annotations

from cathedra.kinds.served import apps_definitions


def test_the_kinds_of_apps_are_those_that_make_pods_and_their_revisions() -> None:
    assert {(d.plural, d.short_names) for d in apps_definitions()} == {
        ("deployments", ("deploy",)),
        ("replicasets", ("rs",)),
        ("statefulsets", ("sts",)),
        ("daemonsets", ("ds",)),
        ("controllerrevisions", ()),
    }
    assert {d.group for d in apps_definitions()} == {"apps"}
    assert all(d.namespaced and [v.name for v in d.versions] == ["v1"] for d in apps_definitions())


def test_what_has_replicas_is_scaled() -> None:
    scaled = {definition.plural for definition in apps_definitions() if definition.scalable}
    assert scaled == {"deployments", "replicasets", "statefulsets"}
    assert scaled == {d.plural for d in apps_definitions() if hasattr(getattr(d.type(), "spec", None), "replicas")}


def test_kubectl_get_all_shows_the_workloads_alone() -> None:
    shown = {definition.plural for definition in apps_definitions() if "all" in definition.categories}
    assert shown == {"deployments", "replicasets", "statefulsets", "daemonsets"}
