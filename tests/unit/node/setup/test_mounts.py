"""Which volumes a container sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cathedra.api.core.core_v1 import (
    ConfigMapVolumeSource,
    Container,
    EmptyDirVolumeSource,
    Volume,
    VolumeMount,
)
from cathedra.node.setup.errors import ContainerConfigError
from cathedra.node.setup.mounts import container_mounts
from tests.unit.node.fakes import make_pod
from tests.unit.node.setup.cases import with_volumes


def test_a_part_of_a_volume_is_mounted_and_never_what_is_outside(tmp_path: Path) -> None:
    def mounts(**mount: Any) -> list[str]:
        container = Container(name="c", volume_mounts=(VolumeMount(name="v", mount_path="/v", **mount),))
        return [m.host_path for m in container_mounts(make_pod(), container, {"v": str(tmp_path)}, {"POD": "p"})]

    assert mounts() == [str(tmp_path)]
    assert mounts(sub_path="a/b") == [f"{tmp_path}/a/b"]
    assert mounts(sub_path_expr="$(POD)") == [f"{tmp_path}/p"]
    (tmp_path / "out").symlink_to("/etc")
    for wrong in ("../x", "/etc", "out/ssl"):
        with pytest.raises(ContainerConfigError):
            mounts(sub_path=wrong)
    bare = Container(name="c", volume_mounts=(VolumeMount(name="v", mount_path="/v"),))
    with pytest.raises(ContainerConfigError, match='cannot find volume "v"'):
        list(container_mounts(make_pod(), bare, {}, {}))


def test_what_the_node_keeps_up_to_date_can_only_be_read() -> None:
    pod = with_volumes(
        Volume(name="cm", config_map=ConfigMapVolumeSource(name="cm")),
        Volume(name="e", empty_dir=EmptyDirVolumeSource()),
    )
    mounts = tuple(VolumeMount(name=name, mount_path=f"/{name}") for name in ("cm", "e"))
    found = container_mounts(pod, Container(name="c", volume_mounts=mounts), {"cm": "/x", "e": "/y"}, {})
    assert [mount.read_only for mount in found] == [True, False]
