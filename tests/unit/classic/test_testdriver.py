"""Allocations of a test driver, and the resources that are left."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.classic.controller import WantedClaim
from cathedra.classic.nodes.plugin import NodeClaim, StructuredHandle
from cathedra.classic.testdriver import (
    DRIVER_NAME,
    AllocatedClaims,
    HandleData,
    InvalidResources,
    TestNodeDriver,
    TestResources,
    WrongNode,
    read_resources,
)
from cathedra.driver.files import DiskFiles


def claim(uid: str) -> v1alpha2.ResourceClaim:
    return v1alpha2.ResourceClaim(metadata=ObjectMeta(name=uid, uid=uid))


def counted(resources: TestResources, **nodes: str) -> AllocatedClaims:
    allocated = AllocatedClaims(resources)
    for uid, node in nodes.items():
        allocated.enter(claim(uid), node)
    return allocated


def test_claims_are_counted_until_they_are_taken_back() -> None:
    allocated = counted(TestResources(), a="n1", b="n1", c="")
    assert (allocated.statistics(), len(allocated), allocated.node_of(claim("a"))) == ({"n1": 2, "": 1}, 3, "n1")
    allocated.remove(claim("a"))
    allocated.remove(claim("a"))
    assert (allocated.statistics(), allocated.node_of(claim("a"))) == ({"n1": 1, "": 1}, None)


@pytest.mark.parametrize(
    ("resources", "node", "claims", "expected"),
    [
        (TestResources(), "n1", 99, True),
        (TestResources(nodes=("n2",)), "n1", 1, False),
        (TestResources(max_allocations=3), "n1", 1, False),
        (TestResources(max_allocations=4), "n1", 1, True),
        (TestResources(node_local=True, max_allocations=3), "n1", 1, True),
        (TestResources(node_local=True, max_allocations=3), "n1", 2, False),
    ],
)
def test_room_is_each_nodes_or_the_clusters(resources: TestResources, node: str, claims: int, expected: bool) -> None:
    assert counted(resources, a="n1", b="n1", c="n2").has_room(node, claims) is expected


def test_a_node_must_have_room_for_all_claims_that_are_not_allocated_yet() -> None:
    allocated = counted(TestResources(node_local=True, max_allocations=2), a="n1")
    wanted: list[WantedClaim[Any]] = [WantedClaim(claim(uid)) for uid in ("a", "b", "c")]
    allocated.exclude_nodes(wanted, ["n1", "n2"])
    assert [one.unsuitable_nodes for one in wanted] == [["n1"]] * 3


# The resources of the test driver, and its messages to its node plugin.


def test_a_file_has_the_names_of_the_go_program(tmp_path: Path) -> None:
    file = tmp_path / "resources.json"
    file.write_text('{"NodeLocal": true, "Nodes": ["a"], "MaxAllocations": 2, "Shareable": true}')
    assert read_resources(file) == TestResources(node_local=True, nodes=("a",), max_allocations=2, shareable=True)


@pytest.mark.parametrize("text", ['{"Nodelocal": true}', "[]", "{", '{"MaxAllocations": "2"}'])
def test_what_it_does_not_know_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "resources.json"
    file.write_text(text)
    with pytest.raises(InvalidResources, match=r"^--resource-config .*resources.json: .+$"):
        read_resources(file)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(InvalidResources, match="--resource-config /nowhere: No such file or directory"):
        read_resources(Path("/nowhere"))


def test_handles_are_read_as_they_are_written() -> None:
    data = HandleData({"user_a": "b"}, "n")
    assert data.encode() == '{"EnvVars":{"user_a":"b"},"NodeName":"n"}'
    assert HandleData.decode(data.encode()) == data
    assert HandleData.decode("") == HandleData({}, "")
    with pytest.raises(ValueError, match="resource handle 'x'"):
        HandleData.decode("x")


def test_claims_of_the_cluster_can_be_used_where_it_has_resources() -> None:
    assert TestResources().available_on("") is None
    for resources, node, wanted in (
        (TestResources(nodes=("a", "b")), "", ("a", "b")),
        (TestResources(node_local=True), "a", ("a",)),
    ):
        selector = resources.available_on(node)
        assert selector is not None
        (term,) = selector.node_selector_terms or ()
        assert [(one.key, one.values) for one in term.match_expressions] == [("kubernetes.io/hostname", wanted)]


# The test driver's node plugin: a CDI document for each claim.


def environment(directory: Path) -> list[str]:
    """The variables of the only document."""
    (file,) = directory.glob("*.json")
    (device,) = json.loads(file.read_text())["devices"]
    variables: list[str] = device["containerEdits"]["env"]
    return variables


def prepare(directory: Path, claim: NodeClaim) -> tuple[TestNodeDriver, tuple[str, ...]]:
    driver = TestNodeDriver(DRIVER_NAME, "node-0", cdi_dir=directory, files=DiskFiles())
    return driver, asyncio.run(driver.prepare(claim))


def test_the_variables_of_the_handle_become_those_of_a_device(tmp_path: Path) -> None:
    handle = HandleData({"user_a": "b"}, "").encode()
    driver, devices = prepare(tmp_path, NodeClaim("default", "u", "c", handle))
    assert devices == ("cdi.k8s.io/test=claim-u",)
    assert environment(tmp_path) == ["user_a=b"]
    asyncio.run(driver.unprepare(NodeClaim("default", "u", "c")))
    assert list(tmp_path.glob("*.json")) == []


def test_parameters_of_a_structured_handle_become_variables_too(tmp_path: Path) -> None:
    structured = StructuredHandle("node-0", ("i",), b'{"X":"y"}', b'{"a":"b"}', (b'{"c":"d"}',))
    prepare(tmp_path, NodeClaim("default", "u", "c", structured=structured))
    assert environment(tmp_path) == ["admin_x=y", "user_a=b", "user_c=d"]


def test_a_claim_without_variables_needs_no_device(tmp_path: Path) -> None:
    assert prepare(tmp_path, NodeClaim("default", "u", "c"))[1] == ()


def test_a_claim_of_another_node_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongNode, match="allocated for node other, this is node-0"):
        prepare(tmp_path, NodeClaim("default", "u", "c", HandleData({}, "other").encode()))
