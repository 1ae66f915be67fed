"""Questions for replay: small, complete for one node, and readable from a log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cathedra.allocation.errors import InvalidInput
from cathedra.api.core.core_v1 import EnvVar, Node
from cathedra.api.struct import replace
from cathedra.insight import ClusterState, explain
from cathedra.insight.reading.questions import question_of, read_question
from cathedra.releases import FeatureGates
from tests.unit.scheduler.objects import claim, device_class, exactly, node, pod, slice_

POD = pod("a", resourceClaims=[{"name": "gpu", "resourceClaimName": "a"}])
GATES = FeatureGates.for_release("1.36", {"DRAConsumableCapacity": True})
STATE = ClusterState.of(
    [
        *(node(f"n{number}") for number in range(50)),
        *(slice_(f"n{number}") for number in range(50)),
        *(device_class(), POD, claim("a", exactly(count=2)), claim("other")),
        pod("beside", nodeName="n7"),
    ],
    gates=GATES,
)


def test_a_question_has_what_decides_on_its_node_and_nothing_of_others() -> None:
    small = question_of(POD, "n7", STATE).state
    assert [one.metadata.name for one in small.all(Node)] == ["n7"]
    assert {one.metadata.name for one in small.pods} == {"a", "beside"}
    assert len(json.loads(question_of(POD, "n7", STATE).to_line())["items"]) == 6


def test_it_has_no_values_of_environment_variables() -> None:
    secret = replace(POD.spec.containers[0], env=(EnvVar(name="TOKEN", value="hush"),), args=("--password=hush",))
    spec = replace(POD.spec, containers=(secret,))
    assert "hush" not in question_of(replace(POD, spec=spec), "n7", STATE).to_line()


@pytest.mark.parametrize("form", ["{}\n", "WARNING pod default/a: it fits: {}\n", "json"])
def test_it_is_read_from_a_file_a_log_and_a_log_in_json(form: str, tmp_path: Path) -> None:
    line = question_of(POD, "n7", STATE).to_line()
    text = json.dumps({"message": f"fits: {line}"}) if form == "json" else form.replace("{}", line)
    (tmp_path / "log").write_text(f"another line {{\n{text}\n")
    read = read_question(tmp_path / "log")
    assert (read.pod, read.node) == ("default/a", "n7")
    assert read.state.gates.release == "1.36"
    assert read.state.gates["DRAConsumableCapacity"]
    assert explain(read.state, "pod/a").fits_on == ("n7",)


@pytest.mark.parametrize("text", ["", "no question", '{"kind":"PodQuestion"}', "{PodQuestion"])
def test_a_file_without_a_question_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text)
    with pytest.raises(InvalidInput, match="--replay"):
        read_question(tmp_path / "log")
