"""The engine of the page, in WebAssembly under node: the same answers, and RE2's semantics without RE2."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cathedra.engine import Engine
from tests.requirements import pyodide_bundle

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "insight"
SELECTOR = 'device.driver.matches("^gpu\\\\.") && device.attributes["gpu.example.com"].numa == 0'


def file_of(name: str) -> dict[str, str]:
    return {"name": name, "text": (EXAMPLES / name).read_text()}


QUESTIONS: tuple[dict[str, Any], ...] = (
    {"question": "load", "files": [file_of("cluster.yaml")]},
    {"question": "explain", "subject": "pod/train", "namespace": "team-a"},
    {"question": "explain"},
    {"question": "explain", "files": [file_of("training.yaml")]},
    {"question": "devices"},
    {"question": "devices", "wide": True},
    {"question": "simulate", "addNodes": ["2=node-0", "1=h100-8"], "drain": ["node-1"]},
    {"question": "simulate", "files": [file_of("inference.yaml")], "copies": 3},
    {"question": "simulate", "taint": ["gpu.example.com/node-0/gpu-1=broken:NoExecute"]},
    {"question": "lint", "files": [file_of("mistakes.yaml")], "against": True},
    {"question": "match", "expression": SELECTOR},
    {"question": "evaluate", "expression": SELECTOR, "device": "node-0/gpu-0"},
    {"question": "complete", "before": 'device.attributes["gp'},
    {"question": "object", "objectKind": "Pod", "name": "train", "namespace": "team-a"},
    {"question": "explain", "subject": "pod/none"},
    {"question": "unknown"},
)


@pytest.fixture(scope="module")
def bundle() -> Path:
    return pyodide_bundle()


def answered(bundle: Path, questions: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return how long the engine took to start, and answers with their times."""
    lines = "".join(f"{json.dumps({'width': 100, **question})}\n" for question in questions)
    command = ["node", str(ROOT / "playground" / "ask.mjs"), str(bundle)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    first, *others = map(json.loads, done.stdout.splitlines())
    return first, others


def test_answers_in_webassembly_are_those_of_the_program(bundle: Path, record_testsuite_property: Any) -> None:
    started, found = answered(bundle, QUESTIONS)
    native = Engine()
    for question, one in zip(QUESTIONS, found, strict=True):
        assert one["answer"] == json.loads(native.answer_json(json.dumps({"width": 100, **question}))), question
    # Measured for docs/performance.md and the report of the run. A busy machine must not fail here.
    record_testsuite_property(
        "webassembly_cold_seconds", started["seconds"] + found[0]["seconds"] + found[1]["seconds"]
    )
    record_testsuite_property("webassembly_warm_seconds", max(one["seconds"] for one in found[2:]))


def test_a_hostile_dump_is_answered_and_the_answers_name_what_is_missing(bundle: Path) -> None:
    name = "<img src=x onerror=alert(1)>"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": {"a": "x" * 10_000_000}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeSelector": {"no": "node"}}}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [node, pod, _slice("many", 200_000)]})
    _, found = answered(
        bundle,
        (
            {"question": "load", "files": [{"name": "dump.json", "text": text}]},
            {"question": "devices"},
            {"question": "explain"},
        ),
    )
    for one in found:
        assert one["answer"]["error"] is None
        assert any("longer than 3 MiB" in text for text in one["answer"]["leftOut"])
    assert name in found[2]["answer"]["text"]


def _slice(name: str, devices: int) -> dict[str, Any]:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool}
    named = [{"name": f"gpu-{number}"} for number in range(devices)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {**spec, "devices": named},
    }


def test_the_regular_expressions_pass_their_tests_in_webassembly(bundle: Path) -> None:
    words = ("-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--noconftest", "-o", "addopts=")
    command = ["node", str(ROOT / "tests" / "playground" / "pytest.mjs"), str(bundle), str(ROOT)]
    packages = Path(pytest.__file__).parents[1]
    tests = ("tests/unit/cel/regex", "tests/unit/cel/library/test_regex.py")
    done = subprocess.run([*command, str(packages), *words, *tests], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
