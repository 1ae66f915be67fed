"""The test driver's node plugin: a CDI document for each claim."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from cathedra.classic.nodes.plugin import NodeClaim, StructuredHandle
from cathedra.classic.testdriver.nodeplugin import TestNodeDriver, WrongNode
from cathedra.classic.testdriver.resources import DRIVER_NAME, HandleData
from cathedra.driver.files import DiskFiles


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
