"""The schemas in docs are those of the code, and answers obey them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest
from tools.schemas import FOLDER, main

from cathedra.insight import (
    PlannedChanges,
    convert,
    defrag,
    devices,
    explain,
    explain_all,
    lint,
    match,
    plan_moves,
    read_dump,
    simulate,
    usage,
)
from cathedra.insight.moving.search import MoveOptions
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with

FRAGMENTED = read_dump(Path(__file__).parents[3] / "examples" / "insight" / "fragmented.yaml")
STATE = read_dump([*gpu_cluster(taken=2), *pod_with(2)])
ANSWERS = {
    "explanation": lambda: explain(STATE, "pod/train").to_dict(),
    "explanationoverview": lambda: explain_all(STATE).to_dict(),
    "devicelist": lambda: devices(STATE).to_dict(),
    "simulation": lambda: simulate(read_dump(gpu_cluster()), PlannedChanges(apply=pod_with(1)), copies=2).to_dict(),
    "selectormatch": lambda: match(STATE, 'device.driver == "x" && true').to_dict(),
    "conversion": lambda: convert("kind: DeviceClass\napiVersion: resource.k8s.io/v1beta1\n").to_dict(),
    "moveplan": lambda: plan_moves(FRAGMENTED, ["pod/train"], options=MoveOptions(prove=False)).to_dict(),
    "defragmentation": lambda: defrag(FRAGMENTED, options=MoveOptions(prove=False)).to_dict(),
    "usagereport": lambda: usage(FRAGMENTED).to_dict(),
    "lintreport": lambda: lint("kind: Pod\napiVersion: v1\nmetadta: {}\n", against=STATE).to_dict(),
}


def test_the_schemas_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["schemas.py", "--check"])
    assert main() == 0


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_obeys_its_schema(name: str) -> None:
    answer = json.loads(json.dumps(ANSWERS[name]()))
    jsonschema_rs.validate(json.loads((FOLDER / f"{name}.json").read_text()), answer)


@pytest.mark.parametrize("name", ANSWERS)
def test_every_field_of_an_answer_is_in_its_schema(name: str) -> None:
    schema = json.loads((FOLDER / f"{name}.json").read_text())
    known = {*schema["properties"], *schema["$defs"][schema["title"]]["properties"]}
    assert set(ANSWERS[name]()) == known
