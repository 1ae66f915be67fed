"""The kinds of the core group."""

from __future__ import annotations

import pytest

from cathedra.kinds.served import core_definitions

KINDS = {definition.group_resource: definition for definition in core_definitions()}
CORE = {plural: definition for (group, plural), definition in KINDS.items() if group == ""}


@pytest.mark.parametrize(
    ("plural", "short"),
    [
        ("pods", "po"),
        ("nodes", "no"),
        ("namespaces", "ns"),
        ("services", "svc"),
        ("endpoints", "ep"),
        ("events", "ev"),
        ("configmaps", "cm"),
        ("serviceaccounts", "sa"),
        ("limitranges", "limits"),
        ("resourcequotas", "quota"),
        ("persistentvolumeclaims", "pvc"),
        ("persistentvolumes", "pv"),
        ("replicationcontrollers", "rc"),
    ],
)
def test_kinds_have_the_short_names_that_kubectl_users_type(plural: str, short: str) -> None:
    assert CORE[plural].short_names == (short,)


def test_only_nodes_namespaces_and_volumes_belong_to_no_namespace() -> None:
    assert {plural for plural, kind in CORE.items() if not kind.namespaced} == {
        "namespaces",
        "nodes",
        "persistentvolumes",
    }


def test_events_are_one_kind_of_object_in_two_groups() -> None:
    groups = {group: kind for (group, plural), kind in KINDS.items() if plural == "events"}
    assert set(groups) == {"", "events.k8s.io"}
    assert groups["events.k8s.io"].stored_as == groups[""].group_resource


def test_every_kind_of_the_core_is_v1_alone() -> None:
    assert {version.name for kind in CORE.values() for version in kind.versions} == {"v1"}
