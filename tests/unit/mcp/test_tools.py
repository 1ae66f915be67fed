"""The tools answer as the commands do with ``-o json``, in a bounded size; errors are one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cathedra.engine import Engine, Limits
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from cathedra.mcp import TOOLS, AgentSource, answer_call
from cathedra.mcp.redaction import Visibility, visible_state
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with, write_dump
from tests.unit.mcp.asked import running, waiting
from tests.unit.scheduler.objects import device_class, node, slice_

MANIFESTS = json.dumps({"apiVersion": "v1", "kind": "List", "items": pod_with(2)})


def source(folder: Path, objects: list[dict[str, Any]], *, silence: float = 0.0) -> AgentSource:
    return AgentSource(Engine(read_dump(Path(write_dump(folder / "dump.json", objects)))), lambda: silence)


def answered(asked: AgentSource, name: str, **arguments: Any) -> Any:
    found = answer_call(asked, name, arguments)
    assert not found.failed, found.text
    assert len(found.text) <= 5000
    return json.loads(found.text)


def test_each_argument_is_a_field_of_its_question_and_has_a_schema() -> None:
    for tool in TOOLS:
        schema = tool.schema()
        assert schema["type"] == "object"
        assert set(schema["properties"]) == set(tool.arguments)
        assert all(one["description"] and ("type" in one or "enum" in one) for one in schema["properties"].values())


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("explain", {"subject": "pod/train"}, "Explanation"),
        ("explain", {}, "ExplanationOverview"),
        ("explain", {"manifests": ""}, "ExplanationOverview"),
        ("explain", {"manifests": MANIFESTS}, "Explanation"),
        ("devices", {"node": "node-1", "free": True}, "DeviceList"),
        ("usage", {"by": "node"}, "UsageReport"),
        ("simulate", {"drain": ["node-0"], "copies": 3}, "Simulation"),
        ("lint", {"manifests": MANIFESTS, "against": True}, "LintReport"),
        ("match", {"expression": "true"}, "SelectorMatch"),
    ],
)
def test_an_answer_is_the_model_of_the_command(tmp_path: Path, name: str, arguments: dict[str, Any], kind: str) -> None:
    answer = answered(source(tmp_path, [*gpu_cluster(), *pod_with(3)]), name, **arguments)
    assert (answer["kind"], answer["leftOut"], answer["result"]["kind"]) == ("Answer", [], kind)


@pytest.mark.parametrize(
    ("name", "arguments", "left_out"),
    [
        ("explain", {"subject": "pod/train"}, "groups[].nodes: the first "),
        ("devices", {}, "devices: the first "),
        ("match", {"expression": "true"}, "matched: the first "),
    ],
)
def test_an_answer_on_many_nodes_is_short_and_states_what_is_missing(
    tmp_path: Path, name: str, arguments: dict[str, Any], left_out: str
) -> None:
    answer = answered(source(tmp_path, [*gpu_cluster(nodes=500, gpus=4), *pod_with(9)]), name, **arguments)
    assert any(one.startswith(left_out) for one in answer["leftOut"])


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("delete", {}, "there is no tool 'delete'; there are explain, devices, usage, simulate, lint, match"),
        ("devices", {"nod": 1}, "devices has no argument 'nod'; it has deviceClass, node, driver, free"),
        ("devices", {"width": 80}, "devices has no argument 'width'; it has deviceClass, node, driver, free"),
        ("devices", {"node": 1}, "devices: Expected `str`, got `int` - at `$.node`"),
        ("usage", {"by": "team"}, "usage: Invalid enum value 'team' - at `$.by`"),
        ("explain", {"manifests": 1}, "explain: Expected `str`, got `int`"),
        ("match", {}, "match needs the argument 'expression'"),
        ("lint", {}, "lint needs the argument 'manifests'"),
        ("match", {"expression": "device.driver =="}, "the expression does not compile: 1:17: Syntax error"),
        ("explain", {"subject": "pod/none"}, "there is no pod 'none' in namespace 'default'"),
        ("explain", {"subject": "pod/train", "manifests": MANIFESTS}, "give either a subject or manifests"),
        ("simulate", {"manifests": "kind: ["}, "manifests.yaml"),
    ],
)
def test_an_error_is_one_line(tmp_path: Path, name: str, arguments: dict[str, Any], why: str) -> None:
    found = answer_call(source(tmp_path, [*gpu_cluster(), *pod_with(3)]), name, arguments)
    assert found.failed
    assert why in found.text
    assert "\n" not in found.text
    assert len(found.text) <= 1000


def test_an_answer_during_a_silence_of_the_server_says_so(tmp_path: Path) -> None:
    answer = answered(source(tmp_path, gpu_cluster(), silence=12.4), "devices")
    assert answer["leftOut"] == ["changes of the last 12 s, in which the API server did not answer"]


def test_what_a_limit_of_the_engine_removed_is_stated_too(tmp_path: Path) -> None:
    state = read_dump(Path(write_dump(tmp_path / "dump.json", gpu_cluster())))
    answer = answered(AgentSource(Engine(state, Limits(devices=2))), "devices")
    assert answer["result"]["total"]["devices"] == 2
    assert answer["leftOut"] == ["2 devices of 1 slice beyond the first 2"]


def estimated_tokens(text: str) -> int:
    """Return a high estimate: four letters, three digits or a run of other characters are one token."""
    words = re.findall(r"[A-Za-z]+|\d+|[^\sA-Za-z\d]+", text)
    return sum(-(-len(word) // (4 if word.isalpha() else 3)) for word in words)


@pytest.fixture(scope="module")
def large() -> ClusterState:
    """5,000 nodes with 40,000 devices, 2,000 of which claims of many namespaces hold, and pods that wait."""
    objects: list[Any] = [device_class("gpu")]
    for number in range(5000):
        objects += [node(f"node-{number}"), slice_(f"node-{number}", 8)]
    for number in range(2000):
        objects += running(f"train-{number}", f"team-{number % 200}", f"gpu-{number % 8}", f"node-{number // 8}")
    objects += waiting("wants", "team-1", 9)
    return ClusterState.of(objects, "the server")


@pytest.mark.parametrize("hidden", [False, True])
def test_an_answer_on_5000_nodes_has_less_than_2000_tokens(large: ClusterState, hidden: bool) -> None:
    kinds = dict.fromkeys(large.objects)
    state = visible_state(large, Visibility(frozenset(("team-1",)) if hidden else None, kinds), b"secret")
    engine = AgentSource(Engine(state))
    calls: dict[str, dict[str, Any]] = {"devices": {}}
    if not hidden:
        explained = {"subject": "pod/wants", "namespace": "team-1"}
        calls |= {"explain": explained, "usage": {"by": "node"}, "match": {"expression": "true"}}
    for name, arguments in calls.items():
        found = answer_call(engine, name, arguments)
        assert not found.failed, found.text
        assert estimated_tokens(found.text) < 2000, name
