"""The compact form of the map has the same content in fewer bytes, and the page expands it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cathedra.engine import Engine
from cathedra.insight import read_dump
from cathedra.insight.inventory.clustermap import ClusterMap, cluster_map
from cathedra.insight.inventory.compactmap import compact_map
from tests.requirements import program
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with, write_dump

ROOT = Path(__file__).parents[4]
EXAMPLES = sorted((ROOT / "examples" / "insight").glob("*.yaml"))
MODEL = ROOT / "src/cathedra/page/static/model.js"


def maps() -> list[ClusterMap]:
    found = [cluster_map(read_dump(path)) for path in EXAMPLES if path.name in ("cluster.yaml", "fragmented.yaml")]
    return [*found, cluster_map(read_dump([*gpu_cluster(nodes=3, taken=2), *pod_with(1)]))]


def test_the_page_expands_it_to_the_map() -> None:
    node = program("node")
    given = maps()
    script = (
        f"const {{ expanded }} = await import({json.dumps(MODEL.as_uri())});"
        "const body = await new Response(process.stdin).text();"
        "console.log(JSON.stringify(JSON.parse(body).map(expanded)));"
    )
    compact = [json.loads(compact_map(one).encode()) for one in given]
    done = subprocess.run(
        [node, "--no-warnings", "--input-type=module", "--eval", script],
        input=json.dumps(compact),
        capture_output=True,
        text=True,
        check=True,
    )
    plain: list[dict[str, Any]] = [msgspec.to_builtins(one) for one in given]
    found = json.loads(done.stdout)
    for one in found:
        assert one.pop("kind") == "CompactMap"
        assert one.pop("apiVersion") == "cathedra.dev/v1"
    assert json.loads(json.dumps(plain)) == found


def test_devices_of_equal_form_share_it() -> None:
    found = compact_map(cluster_map(read_dump(gpu_cluster(nodes=20, gpus=8))))
    assert len(found.devices) == 160
    assert len(found.forms) == 1


def test_a_large_map_has_less_than_a_third_of_the_bytes() -> None:
    found = cluster_map(read_dump(gpu_cluster(nodes=200, gpus=8, taken=600)))
    assert len(compact_map(found).encode()) < len(msgspec.json.encode(found)) / 3


@pytest.mark.parametrize("compact", [True, False])
def test_overlong_strings_are_cut_in_both_forms(tmp_path: Path, compact: bool) -> None:
    objects = gpu_cluster()
    node = next(one for one in objects if one["kind"] == "Node")
    node["metadata"]["labels"] = {"long": "x" * 20_000}
    engine = Engine(read_dump(Path(write_dump(tmp_path / "dump.json", objects))))
    answer = json.loads(engine.answer_json(json.dumps({"question": "map", "compact": compact})))
    (length,) = {len(one["labels"]["long"]) for one in answer["result"]["nodes"] if "long" in one["labels"]}
    assert length == 16_384
    assert answer["leftOut"] == ["the ends of 1 string longer than 16,384 characters"]
