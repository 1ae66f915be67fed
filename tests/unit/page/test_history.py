"""The changes of a map are its differences, and every page can follow them from the map that it has."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from cathedra.insight import read_dump
from cathedra.insight.inventory.clustermap import ClusterMap, cluster_map
from cathedra.page import history as history_module
from cathedra.page.history import MapEvent, MapHistory, Unchanging, difference
from tests.requirements import program
from tests.running import on_virtual_clock
from tests.unit.cli.dra.dumps import gpu_cluster

MODEL = Path(__file__).parents[3] / "src/cathedra/page/static/model.js"


def map_at(now: float, taken: int = 0, nodes: int = 2) -> ClusterMap:
    return structs.replace(cluster_map(read_dump(gpu_cluster(nodes=nodes, taken=taken))), now=now)


async def read(lines: AsyncIterator[bytes]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await anext(lines))
    return found


def test_a_change_has_the_devices_before_and_after() -> None:
    found = difference(map_at(1), map_at(2, taken=1), 2)
    assert [(one.device, one.state) for one in found.devices] == [("gpu-0", "held")]
    assert [(one.device, one.state) for one in found.before] == [("gpu-0", "free")]
    assert [(one.kind, one.claim) for one in found.events] == [("allocated", "other/held-0")]
    assert [one.name for one in found.subjects] == ["held-0"]


def test_a_claim_that_ends_gives_its_devices_back() -> None:
    found = difference(map_at(1, taken=1), map_at(2), 2)
    assert [(one.kind, one.text) for one in found.events] == [("freed", "claim other/held-0 gave back gpu-0 on node-0")]
    assert list(found.gone_subjects) == ["claim/other/held-0"]
    assert [(one.name, one.state) for one in found.before_subjects] == [("held-0", "allocated,reserved")]


def test_the_page_takes_changes_back_until_it_has_the_map_of_a_moment() -> None:
    """Nodes, devices and lists of an earlier time are those that the map had then."""
    maps = [map_at(1, taken=1), map_at(2, taken=2), map_at(3, nodes=1), map_at(4, taken=1, nodes=3)]
    changes = [difference(old, new, new.now or 0.0) for old, new in itertools.pairwise(maps)]
    script = (
        f"const {{ ClusterModel, asOf }} = await import({json.dumps(MODEL.as_uri())});"
        "const { present, changes } = JSON.parse(await new Response(process.stdin).text());"
        "const model = new ClusterModel(present);"
        "const plain = (one) => ['nodes', 'devices', 'subjects'].map((kind) => Object.fromEntries(one[kind]));"
        "console.log(JSON.stringify([1, 2, 3, 4].map((now) => plain(asOf(model, changes, now)))));"
    )
    given = msgspec.json.encode({"present": maps[-1], "changes": changes})
    command = [program("node"), "--no-warnings", "--input-type=module", "--eval", script]
    shown = json.loads(subprocess.run(command, input=given, capture_output=True, check=True).stdout)
    for map_, (nodes, devices, subjects) in zip(maps, shown, strict=True):
        expected = json.loads(msgspec.json.encode(map_))
        assert nodes == {one["name"]: one for one in expected["nodes"]}
        assert devices == {"/".join((one["driver"], one["pool"], one["device"])): one for one in expected["devices"]}
        assert subjects == {"/".join((one["kind"], one["namespace"], one["name"])): one for one in expected["subjects"]}


def test_totals_and_devices_of_equal_form_follow_changes() -> None:
    """They are corrected by each change: counting 40,000 devices 100 times per second would be too slow."""
    maps = [map_at(1, taken=1), map_at(2, taken=2), map_at(3, nodes=1), map_at(4, taken=1, nodes=3)]
    changes = [difference(old, new, new.now or 0.0) for old, new in itertools.pairwise(maps)]
    script = (
        f"const {{ ClusterModel }} = await import({json.dumps(MODEL.as_uri())});"
        "const [maps, changes] = JSON.parse(await new Response(process.stdin).text());"
        "const model = new ClusterModel(maps[0]);"
        "const name = (one) => one.pool + one.device;"
        "const found = (one) => [{ ...one.counts() }, one.neighbours(maps[0].devices[0]).map(name).sort()];"
        "found(model);"
        "console.log(JSON.stringify(changes.map((change, i) => {"
        "  model.apply(change);"
        "  return [found(model), found(new ClusterModel(maps[i + 1]))];"
        "})));"
    )
    command = [program("node"), "--no-warnings", "--input-type=module", "--eval", script]
    given = msgspec.json.encode([maps, changes])
    shown = json.loads(subprocess.run(command, input=given, capture_output=True, check=True).stdout)
    assert [followed for followed, _ in shown] == [counted for _, counted in shown]


def test_a_node_that_goes_takes_its_devices_along() -> None:
    found = difference(map_at(1), map_at(2, nodes=1), 2)
    assert list(found.gone_nodes) == ["node-1"]
    assert {one.node for one in found.before} == {"node-1"}
    assert [one.name for one in found.before_nodes] == ["node-1"]
    assert len(found.gone_devices) == 2


def test_the_difference_of_maps_that_share_entries_is_that_of_their_contents() -> None:
    chosen = random.Random(5)
    one = map_at(1, taken=3, nodes=4)
    for _ in range(40):
        devices = [device for device in one.devices if chosen.random() < 0.9]
        other = structs.replace(
            one, devices=tuple(structs.replace(d, health="Unknown") if chosen.random() < 0.2 else d for d in devices)
        )
        for old, new in ((one, other), (other, one)):
            found = difference(old, new, 2)
            before, after = ({d.pool + d.device: d for d in each.devices} for each in (old, new))
            assert {d.pool + d.device for d in found.devices} == {k for k, d in after.items() if before.get(k) != d}
            assert len(found.gone_devices) == len(before.keys() - after.keys())
            assert {d.pool + d.device for d in found.before} == {k for k, d in before.items() if after.get(k) != d}


def test_equal_maps_make_no_change() -> None:
    assert difference(map_at(1), map_at(2), 2).is_empty


@on_virtual_clock
async def test_a_page_with_the_first_map_gets_the_changes_alone() -> None:
    history = MapHistory(map_at(1), 1.0)
    history.advance(map_at(2, taken=1), 2.0)
    lines = history.lines(since=1.0)
    start = await read(lines)
    assert "map" not in start
    assert [one["now"] for one in start["changes"]] == [2.0]
    assert (await read(lines))["type"] == "tick"
    history.advance(map_at(3, taken=2), 3.0)
    change = await read(lines)
    assert (change["type"], change["devices"][0]["state"]) == ("change", "held")


@on_virtual_clock
async def test_a_page_without_a_map_gets_it_with_the_history() -> None:
    history = MapHistory(map_at(1), 1.0, [(0.5, MapEvent("failed", "pod a/b: FailedScheduling: no"))])
    history.advance(map_at(2, taken=1), 2.0)
    start = await read(history.lines())
    assert len(start["map"]["devices"]) == 4
    assert [one["now"] for one in start["history"]] == [0.5, 2.0]
    assert start["changes"] == []


@on_virtual_clock
async def test_a_page_that_has_missed_dropped_changes_gets_the_map_again(*, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "MOST_DEVICES", 1)
    history = MapHistory(map_at(1), 1.0)
    lines = history.lines(since=1.0)
    await read(lines)
    for number in range(2, 5):
        history.advance(map_at(number, taken=number), float(number))
    assert "map" in await read(lines)


@on_virtual_clock
async def test_changes_are_kept_for_an_hour() -> None:
    history = MapHistory(map_at(1), 1.0)
    history.advance(map_at(2, taken=1), 2.0)
    history.advance(map_at(4000, taken=2), 4000.0)
    start = await read(history.lines())
    assert [one["now"] for one in start["history"]] == [4000.0]
    assert start["began"] == 4000.0


@on_virtual_clock
async def test_a_tick_names_the_moment_from_which_on_the_cluster_does_not_answer() -> None:
    history = MapHistory(map_at(1), 1.0)
    history.note_contact(5.0, None)
    history.note_contact(9.0, 6.0)
    lines = history.lines(since=1.0)
    await read(lines)
    assert await read(lines) == {"type": "tick", "readAt": 5.0, "lostSince": 6.0}


@on_virtual_clock
async def test_the_stream_of_a_dump_reports_that_it_is_one() -> None:
    assert await read(Unchanging().lines()) == {"type": "static"}
