"""The cgroups of pods, in a directory that stands for the kernel's unified hierarchy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.quantity import Quantity
from cathedra.api.struct import from_dict
from cathedra.node.resources.cgroups import PodCgroups, cpu_weight, is_usable
from cathedra.releases import FeatureGates

GATES = FeatureGates.for_release("1.37")
ALLOCATABLE = {"cpu": Quantity("8"), "memory": Quantity("16Gi"), "pods": Quantity("110")}


def pod(uid: str, quality: str, **amounts: dict[str, str]) -> Pod:
    body = {
        "metadata": {"name": uid, "uid": uid},
        "spec": {"containers": [{"name": "c", "resources": amounts}]},
        "status": {"qosClass": quality},
    }
    return from_dict(Pod, body)


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma misc")
    (tmp_path / "cgroup.procs").write_text("")
    return tmp_path


def opened(mount: Path) -> PodCgroups:
    cgroups = PodCgroups(mount, "/node", ALLOCATABLE, GATES)
    cgroups.open()
    return cgroups


def contents(directory: Path, *names: str) -> list[str]:
    return [(directory / name).read_text() for name in names]


@pytest.mark.parametrize(("shares", "weight"), [(0, 1), (2, 1), (1024, 39), (8192, 313), (262_144, 10_000)])
def test_shares_become_weights_as_in_a_kubelet(shares: int, weight: int) -> None:
    assert cpu_weight(shares) == weight


def test_a_hierarchy_is_usable_where_it_can_be_written(mount: Path) -> None:
    assert is_usable(mount)
    (mount / "cgroup.controllers").unlink()
    assert not is_usable(mount)


def test_all_pods_together_get_what_is_allocatable(mount: Path) -> None:
    opened(mount)
    top = mount / "node" / "kubepods"
    assert contents(top, "cpu.weight", "cpu.max", "memory.max") == ["313", "max 100000", str(16 * 2**30)]
    assert contents(top / "besteffort", "cpu.weight") == ["1"]
    assert (mount / "cgroup.subtree_control").read_text() == "+cpu +cpuset +memory +hugetlb +pids +io"


def test_each_quality_has_its_place_and_its_limits(mount: Path) -> None:
    cgroups = opened(mount)
    top = mount / "node" / "kubepods"
    one = {"cpu": "1", "memory": "1Gi"}
    guaranteed, burstable, best = (
        pod("g", "Guaranteed", requests=one, limits=one),
        pod("b", "Burstable", requests={"cpu": "500m"}, limits={"hugepages-2Mi": "4Mi"}),
        pod("e", "BestEffort"),
    )
    for each in (guaranteed, burstable, best):
        cgroups.apply(each)
    names = ("cpu.weight", "cpu.max", "memory.max")
    assert contents(top / "podg", *names) == ["39", "100000 100000", str(2**30)]
    assert contents(top / "burstable" / "podb", *names) == ["20", "max 100000", "max"]
    assert contents(top / "burstable" / "podb", "hugetlb.2MB.max") == [str(4 * 2**20)]
    assert contents(top / "besteffort" / "pode", *names) == ["1", "max 100000", "max"]
    assert cgroups.path_of(burstable) == "/node/kubepods/burstable/podb"


def test_burstable_pods_weigh_together_what_they_ask_for_together(mount: Path) -> None:
    cgroups = opened(mount)
    burstable = mount / "node" / "kubepods" / "burstable"
    pods = [pod(uid, "Burstable", requests={"cpu": "1"}) for uid in ("a", "b")]
    for each in pods:
        cgroups.apply(each)
    assert contents(burstable, "cpu.weight") == [str(cpu_weight(2048))]
    cgroups.remove(pods[0])
    assert contents(burstable, "cpu.weight") == [str(cpu_weight(1024))]


def test_a_pods_cgroup_goes_with_those_of_its_containers(mount: Path) -> None:
    """The kernel removes a cgroup with its files; here they are taken away by hand."""
    cgroups = opened(mount)
    made = pod("e", "BestEffort")
    cgroups.apply(made)
    place = mount / "node" / "kubepods" / "besteffort" / "pode"
    shutil.rmtree(place)
    (place / "container").mkdir(parents=True)
    cgroups.remove(made)
    assert not place.exists()


def test_a_limit_that_the_kernel_refuses_is_an_error_and_a_controller_that_it_lacks_is_none(mount: Path) -> None:
    cgroups = opened(mount)
    made = pod("e", "BestEffort")
    place = mount / "node" / "kubepods" / "besteffort" / "pode"
    (place / "memory.max").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        cgroups.apply(made)
