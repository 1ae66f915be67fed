"""Hierarchies of pod groups are assembled from their references."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.struct import from_dict
from cathedra.releases import FeatureGates
from cathedra.semantics.podgroups import (
    GroupKey,
    InvalidHierarchy,
    least_count,
    parent_name,
    root_of,
    topology_key,
    tree_of,
)

Group = PodGroup | CompositePodGroup
GATES = FeatureGates.for_release("1.38")


def group(name: str, parent: str = "", *, created: int = 0, **spec: Any) -> PodGroup:
    body: dict[str, Any] = {"schedulingPolicy": {"basic": {}}, **spec}
    if parent:
        body["parentCompositePodGroupName"] = parent
    metadata = {"name": name, "namespace": "default", "creationTimestamp": f"2026-01-01T00:00:{created:02}Z"}
    return from_dict(PodGroup, {"metadata": metadata, "spec": body})


def composite(name: str, parent: str = "", workload: str = "w", **spec: Any) -> CompositePodGroup:
    reference = {"workloadName": workload, "templateName": "t"}
    body: dict[str, Any] = {"schedulingPolicy": {"basic": {}}, "workloadRef": reference, **spec}
    if parent:
        body["parentCompositePodGroupName"] = parent
    return from_dict(CompositePodGroup, {"metadata": {"name": name, "namespace": "default"}, "spec": body})


class Groups:
    """Groups in memory."""

    def __init__(self, *groups: Group) -> None:
        self.groups = groups

    def pod_group(self, namespace: str, name: str) -> PodGroup | None:
        return next((one for one in self.groups if isinstance(one, PodGroup) and one.metadata.name == name), None)

    def composite(self, namespace: str, name: str) -> CompositePodGroup | None:
        named = (one for one in self.groups if isinstance(one, CompositePodGroup) and one.metadata.name == name)
        return next(named, None)

    def children(self, namespace: str, name: str) -> Iterable[Group]:
        return [one for one in self.groups if parent_name(one) == name]


def test_children_are_scheduled_in_the_order_of_their_creation() -> None:
    root = composite("root")
    groups = Groups(root, group("late", "root", created=9), group("early", "root", created=1), group("other"))
    tree = tree_of(root, groups, GATES)
    assert [node.key.name for node in tree.leaves()] == ["early", "late"]
    assert tree.key == GroupKey("CompositePodGroup", "default", "root")
    assert root_of(groups.groups[1], groups) is root


def test_a_hierarchy_whose_root_is_missing_has_none() -> None:
    leaf = group("leaf", "middle")
    assert root_of(leaf, Groups(leaf, composite("middle", "root"))) is None


def test_a_group_without_a_parent_is_its_own_root() -> None:
    leaf = group("leaf")
    assert root_of(leaf, Groups(leaf)) is leaf
    assert tree_of(leaf, Groups(leaf), GATES).children == ()


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        ((group("g", "a"), composite("a", "b"), composite("b", "a")), "form a cycle"),
        (
            (group("g", "a"), composite("a", "b"), composite("b", "c"), composite("c", "d"), composite("d")),
            "has more than 4 levels",
        ),
    ],
)
def test_parents_that_cannot_be_scheduled_are_found(groups: tuple[Group, ...], text: str) -> None:
    with pytest.raises(InvalidHierarchy, match=text):
        root_of(groups[0], Groups(*groups))


def test_groups_of_different_workloads_are_found() -> None:
    root = composite("root")
    with pytest.raises(InvalidHierarchy, match='refer to different Workloads: "w" and "v"'):
        tree_of(root, Groups(root, composite("c", "root", workload="v")), GATES)


@pytest.mark.parametrize("different", [{"priority": 5}, {"preemptionPolicy": "Never"}])
def test_groups_of_another_priority_than_their_root_are_found_from_1_38_on(different: dict[str, Any]) -> None:
    root = composite("root")
    for child in (group("g", "root", **different), composite("c", "root", **different)):
        groups = Groups(root, child)
        assert tree_of(root, groups, FeatureGates.for_release("1.37")).children
        with pytest.raises(InvalidHierarchy, match=f'"{child.metadata.name}" has priority'):
            tree_of(root, groups, GATES)
    equal = composite("root", **different)
    assert tree_of(equal, Groups(equal, group("g", "root", **different)), GATES).children


def test_a_tree_that_is_too_deep_is_found_from_above() -> None:
    chain: list[Group] = [composite("c0")]
    chain += [composite(f"c{number}", f"c{number - 1}") for number in range(1, 4)]
    root = chain[0]
    assert len(list(tree_of(root, Groups(*chain), GATES).nodes())) == 4
    with pytest.raises(InvalidHierarchy, match="more than 4 levels"):
        tree_of(root, Groups(*chain, group("g", "c3")), GATES)


def test_the_policy_gives_the_least_number_of_children() -> None:
    assert least_count(group("g")) == least_count(composite("c")) == 1
    assert least_count(group("g", schedulingPolicy={"gang": {"minCount": 3}})) == 3
    assert least_count(composite("c", schedulingPolicy={"gang": {"minGroupCount": 2}})) == 2


def test_a_group_may_name_a_topology() -> None:
    assert topology_key(group("g")) == ""
    assert topology_key(group("g", schedulingConstraints={"topology": [{"key": "rack"}]})) == "rack"
