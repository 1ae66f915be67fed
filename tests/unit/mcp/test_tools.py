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
from cathedra.mcp.rights import Visibility, visible_state
from cathedra.mcp.tools import shortened
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


# A model that is too long is cut to its size, and each cut is stated.


def size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def test_a_model_that_fits_is_returned_as_it_is() -> None:
    model = {"devices": [{"name": "gpu-0", "taints": []}], "text": ""}
    assert shortened(model, 100) == (model, ())


def test_a_long_list_is_cut_and_the_number_of_its_items_is_stated() -> None:
    shown, left_out = shortened({"nodes": [f"node-{number}" for number in range(5000)], "fits": False}, 500)
    kept = len(shown["nodes"])
    assert shown == {"nodes": [f"node-{number}" for number in range(kept)], "fits": False}
    assert kept > 5
    assert left_out == (f"nodes: the first {kept} of 5,000 are shown", "empty fields")


def test_the_list_that_takes_most_room_is_cut_first() -> None:
    model = {"devices": [{"name": "x" * 90} for _ in range(1000)], "drivers": ["one", "two"]}
    shown, left_out = shortened(model, 1000)
    assert shown["drivers"] == ["one", "two"]
    assert 1 < len(shown["devices"]) < 11
    assert len(left_out) == 2


def test_an_item_is_left_of_an_outer_list_whose_items_are_long() -> None:
    model = {"groups": [{"why": "cpu", "nodes": [f"node-{number}" for number in range(900)]} for _ in range(9)]}
    shown, left_out = shortened(model, 300)
    assert shown["groups"][0]["why"] == "cpu"
    assert shown["groups"][0]["nodes"]
    assert left_out[0].startswith("groups: the first 1 of 9")
    assert left_out[1].startswith("groups[].nodes: the first ")


def test_a_table_with_many_keys_is_cut_as_a_list_is_and_a_struct_is_not() -> None:
    struct = {f"field{number}": 1 for number in range(30)}
    shown, left_out = shortened({"nodes": {f"node-{number}": 8 for number in range(5000)}, "one": struct}, 900)
    assert 0 < len(shown["nodes"]) < 50
    assert shown["one"] == struct
    assert left_out[0].endswith("of 5,000 are shown")


def test_a_long_string_is_cut() -> None:
    shown, left_out = shortened({"kind": "Explanation", "summary": "é" * 9000}, 400)
    assert shown["summary"].endswith("é…")
    assert left_out[0].startswith("the ends of 1 strings longer than ")


@pytest.mark.parametrize("most", [100, 300, 1000, 6000])
@pytest.mark.parametrize(
    "model",
    [
        {"a": [[["deep"] * 60] * 60] * 60},
        {"a": {f"key-{one}": [{"b": "x" * 2000, "c": list(range(99))}] * 70 for one in range(300)}},
        {f"{'long' * 50}{one}": "x" for one in range(40)},
        {"kind": "K", "a": "\\" * 9000, "b": ['"' * 500] * 400},
    ],
)
def test_no_model_is_longer_than_asked_for(model: dict[str, Any], most: int) -> None:
    shown, left_out = shortened(model, most)
    assert size(shown) + size(left_out) <= most
    assert left_out
