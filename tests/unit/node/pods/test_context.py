"""What all pod workers of a node share."""

from __future__ import annotations

from pathlib import Path

from cathedra.client.resources import RESOURCECLAIMS
from cathedra.node.plugins.client import DeviceCondition, ReportedHealth
from tests.unit.node.fakes import DRIVER, NODE, make_claim, make_pod
from tests.unit.node.pods.onepod import OnePod, play


def test_pods_have_files_only_where_the_node_has_a_disk(tmp_path: Path) -> None:
    async def with_disk(one: OnePod) -> None:
        directories = one.context.directories(make_pod("p"))
        assert directories is not None
        assert directories.home == tmp_path / "pods" / "uid-p"

    async def without(one: OnePod) -> None:
        assert one.context.directories(make_pod("p")) is None

    play(with_disk, None, tmp_path)
    play(without)


def test_a_containers_devices_do_as_their_driver_says() -> None:
    pod = make_pod("p", claims=["c1"])

    async def body(one: OnePod) -> None:
        await one.client.resource(RESOURCECLAIMS, "default").create(make_claim("c1", "p"))
        await one.context.claims.prepare(pod)
        one.context.health.receive(DRIVER, [ReportedHealth(NODE, "gpu-0", DeviceCondition.UNHEALTHY)])
        (told,) = one.context.device_health(pod, pod.spec.containers[0])
        assert told.name == "claim:c1"
        assert [resource.health for resource in told.resources] == ["Unhealthy"]
        assert one.context.device_health(make_pod("q"), make_pod("q").spec.containers[0]) == ()

    play(body, pod)
