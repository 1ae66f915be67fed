"""The text of a simulation: each pod and node, or a summary of many."""

from __future__ import annotations

from cathedra.insight.simulation.report import LISTED, NodeChange, PodPlacement, Simulation, simulation_text

MANY = LISTED + 1
OWNER = "replicaset default/web"


def placed(number: int, *, owner: str = OWNER, before: str = "") -> PodPlacement:
    devices = {"gpu": (f"gpu.example.com/node-{number}/gpu-0",)}
    return PodPlacement(f"default/web-{number}", f"node-{number}", devices, before, owner=owner)


def simulation(pods: int) -> Simulation:
    return Simulation(
        placed=tuple(map(placed, range(pods))),
        gone=(),
        pending=(),
        nodes=tuple(NodeChange(f"node-{number}", 8, 0, 1) for number in range(pods)),
    )


def test_few_pods_and_nodes_are_listed() -> None:
    lines = simulation_text(simulation(LISTED), 200).splitlines()
    assert lines[0] == "+ default/web-0 → node-0 (gpu-0)"
    assert len(lines) == 2 * LISTED + 2


def test_many_pods_and_nodes_are_summed_up_by_workloads_and_equal_nodes() -> None:
    lines = simulation_text(simulation(MANY), 200).splitlines()
    nodes = f"node-0, node-1, node-2, node-3 and {MANY - 4} more"
    assert lines == [
        f"+ {MANY} pods of {OWNER} on {MANY} nodes ({nodes}, 1 device each)",
        "",
        f"{MANY} nodes ({nodes}): 0 → 1 of 8 devices in use on each",
        f"{MANY} pods placed, settled after 0 s",
    ]


def test_pods_that_were_created_again_are_summed_up_apart() -> None:
    pods = (*map(placed, range(MANY)), placed(99, before="node-0"), placed(98, owner=""))
    text = simulation_text(Simulation(placed=pods, gone=pods[:MANY], pending=()), 200)
    assert f"- {MANY} pods of {OWNER} on {MANY} nodes" in text
    assert f"+ {MANY} pods of {OWNER} on {MANY} nodes" in text
    assert f"~ {OWNER} on 1 node (node-99, 1 device each)" in text
    assert "+ pod default/web-98 on 1 node (node-98, 1 device each)" in text


def test_a_wide_text_lists_every_pod_and_node() -> None:
    assert len(simulation_text(simulation(MANY), 200, wide=True).splitlines()) == 2 * MANY + 2
