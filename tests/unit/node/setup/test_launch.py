"""From a container of a pod's spec to the specification for a runtime."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.core.core_v1 import (
    Capabilities,
    ConfigMapEnvSource,
    ConfigMapKeySelector,
    ConfigMapVolumeSource,
    Container,
    EmptyDirVolumeSource,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    ObjectFieldSelector,
    PodSecurityContext,
    ResourceFieldSelector,
    ResourceRequirements,
    SecretEnvSource,
    SecurityContext,
    Volume,
    VolumeMount,
)
from cathedra.api.quantity import Quantity
from cathedra.client.client import Client
from cathedra.node.runtime.runtime import ContainerSpec
from cathedra.node.setup.launch import (
    IDLE_SCRIPT,
    LaunchInputs,
    container_argv,
    container_id,
    container_mounts,
    container_spec,
    expand,
    make_subpath,
)
from cathedra.node.setup.references import ContainerConfigError
from tests.running import run_with
from tests.unit.node.fakes import make_pod
from tests.unit.node.setup.cases import FACTS, play, variables, with_volumes


@pytest.mark.parametrize(
    ("container", "argv"),
    [
        (Container(name="c", command=("echo", "$(A)"), args=("-n",)), ("echo", "1", "-n")),
        (Container(name="c", args=("serve", "$(A)")), ("serve", "1")),
        (Container(name="c", image="img", args=("--flag",)), ("sh", "-c", IDLE_SCRIPT, "img")),
        (Container(name="c"), ("sh", "-c", IDLE_SCRIPT, "c")),
    ],
)
def test_the_command_line_is_what_most_images_would_run(container: Container, argv: tuple[str, ...]) -> None:
    assert container_argv(container, {"A": "1"}) == argv


def test_an_id_names_one_run_of_one_container() -> None:
    ids = {container_id(*which) for which in (("u", "c", 0, 0), ("u", "c", 1, 0), ("u", "c", 0, 1), ("u", "d", 0, 0))}
    assert len(ids) == 4
    assert container_id("u", "c", 0, 0) in ids


def spec_of(container: Container, shared: PodSecurityContext | None = None) -> ContainerSpec:
    pod = make_pod("p", container, security_context=shared)
    return container_spec(
        pod,
        container,
        LaunchInputs(
            generation=0, environment={}, volumes={}, cdi_devices=("x.com/d=1",), directories=None, node=FACTS
        ),
        attempt=0,
    )


def test_a_containers_own_security_settings_count_before_the_pods() -> None:
    shared = PodSecurityContext(run_as_user=5, run_as_group=6, fs_group=7, supplemental_groups=(8,))
    made = spec_of(Container(name="c", security_context=SecurityContext(run_as_user=0)), shared)
    assert (made.uid, made.gid, made.groups) == (0, 6, (8, 7))
    assert made.cdi_devices == ("x.com/d=1",)
    bare = spec_of(Container(name="c"))
    assert (bare.uid, bare.gid, bare.groups, bare.privileged) == (None, None, (), False)


def test_capabilities_and_restrictions_are_handed_on() -> None:
    context = SecurityContext(
        privileged=True,
        allow_privilege_escalation=False,
        read_only_root_filesystem=True,
        capabilities=Capabilities(add=("NET_ADMIN",), drop=("ALL",)),
    )
    made = spec_of(Container(name="c", security_context=context, tty=True, stdin=True))
    assert (made.privileged, made.no_new_privileges, made.read_only_root) == (True, True, True)
    assert (made.added_capabilities, made.dropped_capabilities) == (("NET_ADMIN",), ("ALL",))
    assert (made.tty, made.stdin) == (True, True)


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


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "host").mkdir()
    made = tmp_path / "volume"
    made.mkdir()
    made.chmod(0o2770)
    return made


def test_missing_directories_are_made_with_the_volumes_permissions(volume: Path) -> None:
    assert make_subpath(volume, "a//b/./c") == str(volume / "a" / "b" / "c")
    for part in ("a", "a/b", "a/b/c"):
        assert (volume / part).stat().st_mode & 0o7777 == 0o2770
    assert make_subpath(volume, "a/b") == str(volume / "a" / "b")


def test_a_file_may_be_mounted(volume: Path) -> None:
    (volume / "file").write_text("x")
    assert make_subpath(volume, "file") == str(volume / "file")
    with pytest.raises(OSError, match="Not a directory"):
        make_subpath(volume, "file/below")


def test_links_that_stay_inside_are_followed(volume: Path) -> None:
    (volume / "releases" / "7").mkdir(parents=True)
    (volume / "current").symlink_to("releases/latest")
    (volume / "releases" / "latest").symlink_to("../releases/7")
    assert make_subpath(volume, "current/data") == str(volume / "releases" / "7" / "data")


def test_no_descriptor_is_left_open(volume: Path) -> None:
    (volume / "way").symlink_to("/etc")
    before = len(os.listdir("/proc/self/fd"))
    for part in ("a/b/c", "way/x", "way"):
        with contextlib.suppress(ContainerConfigError):
            make_subpath(volume, part)
    assert len(os.listdir("/proc/self/fd")) == before


# Variables of containers (docs/spec/node.md §17).


def test_references_in_values_are_replaced_and_dollars_escaped() -> None:
    assert expand("$(A)-$(B)-$$(A)-$C-$", {"A": "1"}) == "1-$(B)-$(A)-$C-$"


@run_with(play)
async def test_variables_come_from_everywhere_and_later_ones_win(client: Client) -> None:
    limits = ResourceRequirements(limits={"cpu": Quantity("1500m")}, requests={"memory": Quantity("100Mi")})

    def resource(name: str, divisor: str = "") -> EnvVarSource:
        unit = Quantity(divisor) if divisor else None
        return EnvVarSource(resource_field_ref=ResourceFieldSelector(resource=name, divisor=unit))

    key = ConfigMapKeySelector(name="cm", key="a")
    container = Container(
        name="c",
        resources=limits,
        env_from=(
            EnvFromSource(prefix="CM_", config_map_ref=ConfigMapEnvSource(name="cm")),
            EnvFromSource(secret_ref=SecretEnvSource(name="s")),
            EnvFromSource(secret_ref=SecretEnvSource(name="missing", optional=True)),
        ),
        env=(
            EnvVar(name="CM_b", value="mine"),
            EnvVar(name="KEY", value_from=EnvVarSource(config_map_key_ref=key)),
            EnvVar(name="BOTH", value="$(KEY)+$(CM_b)"),
            EnvVar(name="NODE", value_from=EnvVarSource(field_ref=ObjectFieldSelector(field_path="spec.nodeName"))),
            EnvVar(name="IP", value_from=EnvVarSource(field_ref=ObjectFieldSelector(field_path="status.hostIP"))),
            EnvVar(name="CPU", value_from=resource("limits.cpu")),
            EnvVar(name="MILLI", value_from=resource("limits.cpu", "1m")),
            EnvVar(name="MEMORY", value_from=resource("requests.memory", "1Mi")),
            EnvVar(name="NODE_MEMORY", value_from=resource("limits.memory", "1Gi")),
            EnvVar(name="NOTHING", value_from=resource("requests.cpu")),
        ),
    )
    found = await variables(client, container)
    assert found["CM_a"] == "1"
    assert found["pw"] == "x y"
    assert (found["CM_b"], found["KEY"], found["BOTH"]) == ("mine", "1", "1+mine")
    assert (found["NODE"], found["IP"]) == ("n1", "10.0.0.7")
    assert (found["CPU"], found["MILLI"], found["MEMORY"]) == ("2", "1500", "100")
    assert (found["NODE_MEMORY"], found["NOTHING"]) == ("8", "0")
