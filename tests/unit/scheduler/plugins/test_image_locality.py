"""Nodes that have the pod's images are a little better."""

from __future__ import annotations

from cathedra.api.core.core_v1 import ContainerImage, Node
from cathedra.api.struct import replace
from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.plugins.image_locality import ImageLocality
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import node, pod

MB = 1024 * 1024


def with_image(name: str, image: str, size: int) -> Node:
    made = node(name)
    return replace(made, status=replace(made.status, images=(ContainerImage(names=(image,), size_bytes=size),)))


def scores(image: str, *nodes: Node) -> dict[str, int]:
    cache = Cache()
    for one in nodes:
        cache.set_node(one)
    snapshot = cache.snapshot()
    incoming = PodInfo(pod("p", containers=[{"name": "c", "image": image}]))
    found = ImageLocality().score(CycleState(snapshot), incoming, snapshot.nodes) or [0] * len(nodes)
    return dict(zip((info.name for info in snapshot.nodes), found, strict=True))


def test_bytes_that_need_not_be_pulled_count() -> None:
    found = scores("app:1", with_image("big", "app:1", 800 * MB), with_image("small", "app:1", 300 * MB), node("none"))
    assert found["big"] > found["small"] > found["none"] == 0


def test_an_image_without_tag_is_the_latest() -> None:
    assert scores("app", with_image("n", "app:latest", 900 * MB))["n"] > 0
    assert scores("app", with_image("n", "app:1", 900 * MB))["n"] == 0


def test_an_image_that_few_nodes_have_counts_less() -> None:
    alone = scores("app:1", with_image("n", "app:1", 900 * MB))["n"]
    among_many = scores("app:1", with_image("n", "app:1", 900 * MB), *(node(f"m{i}") for i in range(3)))["n"]
    assert 0 < among_many < alone
