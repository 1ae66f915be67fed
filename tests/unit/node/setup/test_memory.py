"""Volumes in memory: how large, and whether containers would see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import Container, EmptyDirVolumeSource, ResourceRequirements
from cathedra.api.quantity import Quantity
from cathedra.node.setup.memory import memory_size, mounts_are_shared
from tests.unit.node.fakes import make_pod
from tests.unit.node.setup.cases import FACTS

MOUNTS = """\
22 1 8:1 / / rw,relatime {root}- ext4 /dev/sda1 rw
40 22 8:2 / /var rw - ext4 /dev/sda2 rw
41 40 0:40 / /var/lib rw shared:7 master:1 - tmpfs tmpfs rw
"""


def memory(limit: str | None) -> dict[str, Quantity]:
    return {"memory": Quantity(limit)} if limit else {}


@pytest.mark.parametrize(
    ("path", "root", "shared"),
    [
        ("/etc", "shared:1 ", True),
        ("/etc", "", False),
        ("/var/log", "shared:1 ", False),
        ("/var/lib/node", "", True),
        ("/variant", "shared:1 ", True),
    ],
)
def test_the_mount_that_a_directory_is_in_says_whether_others_see_what_is_mounted_there(
    path: str, root: str, shared: bool, tmp_path: Path
) -> None:
    file = tmp_path / "mountinfo"
    file.write_text(MOUNTS.format(root=root))
    assert mounts_are_shared(Path(path), file) is shared


@pytest.mark.parametrize(
    ("own", "limits", "size"),
    [
        (None, (), 8 << 30),
        ("1Mi", (), 1 << 20),
        ("2Gi", ("1Gi", None), 1 << 30),
        ("1Gi", ("1Gi", "1Gi"), 1 << 30),
        (None, ("16Gi",), 8 << 30),
    ],
)
def test_a_volume_in_memory_is_as_large_as_it_says_the_pod_may_and_the_node_has(
    own: str | None, limits: tuple[str | None, ...], size: int
) -> None:
    containers = [
        Container(
            name=f"c{number}", resources=ResourceRequirements(limits={"memory": Quantity(limit)} if limit else {})
        )
        for number, limit in enumerate(limits)
    ]
    source = EmptyDirVolumeSource(medium="Memory", size_limit=Quantity(own) if own else None)
    assert memory_size(make_pod("p", *containers), source, FACTS) == size
