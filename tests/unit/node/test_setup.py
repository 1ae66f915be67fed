"""What a pod's containers are given: variables, volumes, their owners (spec: node.md, section 17)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.core.authentication_v1 import TokenRequestStatus
from cathedra.api.core.core_v1 import (
    ConfigMap,
    ConfigMapEnvSource,
    ConfigMapKeySelector,
    ConfigMapVolumeSource,
    Container,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    HostPathVolumeSource,
    KeyToPath,
    NFSVolumeSource,
    ObjectFieldSelector,
    Pod,
    PodSecurityContext,
    ProjectedVolumeSource,
    ResourceFieldSelector,
    ResourceRequirements,
    Secret,
    SecretEnvSource,
    SecretVolumeSource,
    SecurityContext,
    ServiceAccountTokenProjection,
    Volume,
    VolumeMount,
    VolumeProjection,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.resources import CONFIGMAPS, SECRETS
from cathedra.clock import LoopClock, run_virtual
from cathedra.node.setup.directories import PodDirectories
from cathedra.node.setup.environment import container_environment, expand
from cathedra.node.setup.errors import ConfigError, VolumeError
from cathedra.node.setup.mounts import container_mounts
from cathedra.node.setup.nodefacts import NodeFacts
from cathedra.node.setup.ownership import Owner, owner_of
from cathedra.node.setup.references import References, field_value
from cathedra.node.setup.volumes import VolumeMaker
from tests.requirements import root
from tests.unit.node.fakes import GATES, NodeTransport, make_pod

FACTS = NodeFacts("10.0.0.7", {"cpu": Quantity("4"), "memory": Quantity("8Gi")}, GATES)


class Tokens(NodeTransport):
    """Issues tokens."""

    issued = 0

    async def create(self, ref: Any, namespace: str, obj: Any, options: Any, **place: Any) -> Any:
        if place.get("subresource") == "token":
            audience = ",".join(obj.spec.audiences)
            which = ", the second" if self.issued else ""
            self.issued += 1
            return replace(
                obj, status=TokenRequestStatus(token=f"token of {place['name']} for {audience or 'all'}{which}")
            )
        return await super().create(ref, namespace, obj, options, **place)


def play(body: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        transport = Tokens()
        client = Client(transport, clock=transport.clock())
        await client.resource(CONFIGMAPS, "default").create(
            ConfigMap(metadata=ObjectMeta(name="cm"), data={"a": "1", "b": "2"}, binary_data={"raw": b"\x00\x01"})
        )
        await client.resource(SECRETS, "default").create(Secret(metadata=ObjectMeta(name="s"), data={"pw": b"x y"}))
        await body(client)

    run_virtual(main())


async def variables(client: Client, container: Container) -> dict[str, str]:
    return await container_environment(make_pod("p", container), container, References(client, "default"), FACTS)


def test_references_in_values_are_replaced_and_dollars_escaped() -> None:
    assert expand("$(A)-$(B)-$$(A)-$C-$", {"A": "1"}) == "1-$(B)-$(A)-$C-$"


def test_variables_come_from_everywhere_and_later_ones_win() -> None:
    async def body(client: Client) -> None:
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

    play(body)


@pytest.mark.parametrize(
    ("variable", "complaint"),
    [
        (EnvVarSource(config_map_key_ref=ConfigMapKeySelector(name="no", key="a")), 'configmap "no" not found'),
        (
            EnvVarSource(config_map_key_ref=ConfigMapKeySelector(name="cm", key="z")),
            "couldn't find key z in ConfigMap default/cm",
        ),
        (EnvVarSource(field_ref=ObjectFieldSelector(field_path="spec.magic")), "unsupported fieldPath: spec.magic"),
    ],
)
def test_what_is_not_there_is_named(variable: EnvVarSource, complaint: str) -> None:
    async def body(client: Client) -> None:
        with pytest.raises(ConfigError, match=complaint):
            await variables(client, Container(name="c", env=(EnvVar(name="X", value_from=variable),)))

    play(body)


def test_labels_are_listed_or_asked_for_one_by_one() -> None:
    pod = replace(make_pod(), metadata=replace(make_pod().metadata, labels={"b": 'q"x', "a.io/x": "1"}))
    assert field_value(pod, "metadata.labels", "") == 'a.io/x="1"\nb="q\\"x"'
    assert field_value(pod, "metadata.labels['a.io/x']", "") == "1"
    assert field_value(pod, "metadata.labels['none']", "") == ""


def with_volumes(*volumes: Volume, **spec: Any) -> Pod:
    return make_pod("p", volumes=volumes, **spec)


async def make(client: Client, pod: Pod, root: Path) -> dict[str, Path]:
    made = await maker_for(client, pod, root).make()
    return {name: Path(path) for name, path in made.items()}


def maker_for(client: Client, pod: Pod, root: Path) -> VolumeMaker:
    return VolumeMaker(client, pod, PodDirectories(root, pod), FACTS, LoopClock(asyncio.get_running_loop()))


def test_files_of_volumes_have_the_content_and_modes_that_were_asked_for(tmp_path: Path) -> None:
    async def body(client: Client) -> None:
        item = DownwardAPIVolumeFile(path="name", field_ref=ObjectFieldSelector(field_path="metadata.name"))
        pod = with_volumes(
            Volume(name="cm", config_map=ConfigMapVolumeSource(name="cm")),
            Volume(
                name="one",
                config_map=ConfigMapVolumeSource(name="cm", items=(KeyToPath(key="a", path="deep/x", mode=0o400),)),
            ),
            Volume(name="s", secret=SecretVolumeSource(secret_name="s", default_mode=0o440)),
            Volume(name="d", downward_api=DownwardAPIVolumeSource(items=(item,))),
            Volume(name="e", empty_dir=EmptyDirVolumeSource()),
        )
        made = await make(client, pod, tmp_path)
        assert sorted(path.name for path in made["cm"].iterdir()) == ["a", "b", "raw"]
        assert (made["cm"] / "raw").read_bytes() == b"\x00\x01"
        assert (made["one"] / "deep/x").read_text() == "1"
        assert (made["one"] / "deep/x").stat().st_mode & 0o777 == 0o400
        assert (made["s"] / "pw").stat().st_mode & 0o777 == 0o440
        assert (made["d"] / "name").read_text() == "p"
        assert made["e"].stat().st_mode & 0o777 == 0o777

    play(body)


@pytest.mark.parametrize(
    ("volume", "complaint"),
    [
        (Volume(name="v", config_map=ConfigMapVolumeSource(name="no")), 'configmap "no" not found'),
        (
            Volume(name="v", config_map=ConfigMapVolumeSource(name="cm", items=(KeyToPath(key="z", path="z"),))),
            "references non-existent config key: z",
        ),
        (Volume(name="v", host_path=HostPathVolumeSource(path="/no/such", type="Directory")), "is not a directory"),
        (Volume(name="v", nfs=NFSVolumeSource(server="x", path="/")), "no volume plugin matched"),
    ],
)
def test_a_volume_that_cannot_be_made_says_why(tmp_path: Path, volume: Volume, complaint: str) -> None:
    async def body(client: Client) -> None:
        with pytest.raises(VolumeError, match=f'MountVolume.SetUp failed for volume "v" : .*{complaint}'):
            await make(client, with_volumes(volume), tmp_path)

    play(body)


def token_volume(**security: Any) -> Pod:
    wanted = ServiceAccountTokenProjection(path="token", audience="vault")
    source = ProjectedVolumeSource(sources=(VolumeProjection(service_account_token=wanted),))
    context = PodSecurityContext(**security) if security else None
    return with_volumes(Volume(name="t", projected=source), service_account_name="robot", security_context=context)


def test_a_token_is_issued_for_the_pods_account_and_audience(tmp_path: Path) -> None:
    async def body(client: Client) -> None:
        made = await make(client, token_volume(), tmp_path)
        assert (made["t"] / "token").read_text() == "token of robot for vault"
        assert (made["t"] / "token").stat().st_mode & 0o777 == 0o644

    play(body)


def test_a_token_belongs_to_the_user_that_all_containers_run_as(tmp_path: Path) -> None:
    root()

    async def body(client: Client) -> None:
        made = await make(client, token_volume(run_as_user=1000, fs_group=2000), tmp_path)
        found = (made["t"] / "token").stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1000, 2000, 0o640)

    play(body)


def test_an_empty_directory_is_the_groups_and_so_is_what_is_made_in_it(tmp_path: Path) -> None:
    root()

    async def body(client: Client) -> None:
        volume = Volume(name="e", empty_dir=EmptyDirVolumeSource())
        made = await make(client, with_volumes(volume, security_context=PodSecurityContext(fs_group=2000)), tmp_path)
        (made["e"] / "file").touch()
        assert (made["e"] / "file").stat().st_gid == 2000

    play(body)


def test_the_owner_is_the_user_only_if_all_containers_agree() -> None:
    def container(name: str, user: int | None) -> Container:
        return Container(name=name, security_context=SecurityContext(run_as_user=user))

    shared = PodSecurityContext(run_as_user=5, fs_group=7)
    assert owner_of(make_pod("p", container("a", None), security_context=shared)) == Owner(5, 7)
    assert owner_of(make_pod("p", container("a", 6), container("b", None), security_context=shared)) == Owner(None, 7)
    assert owner_of(make_pod("p", container("a", 6))) == Owner(6, None)


def test_a_part_of_a_volume_is_mounted_and_never_what_is_outside(tmp_path: Path) -> None:
    def mounts(**mount: Any) -> list[str]:
        container = Container(name="c", volume_mounts=(VolumeMount(name="v", mount_path="/v", **mount),))
        return [m.host_path for m in container_mounts(make_pod(), container, {"v": str(tmp_path)}, {"POD": "p"})]

    assert mounts() == [str(tmp_path)]
    assert mounts(sub_path="a/b") == [f"{tmp_path}/a/b"]
    assert mounts(sub_path_expr="$(POD)") == [f"{tmp_path}/p"]
    (tmp_path / "out").symlink_to("/etc")
    for wrong in ("../x", "/etc", "out/ssl"):
        with pytest.raises(ConfigError):
            mounts(sub_path=wrong)
    bare = Container(name="c", volume_mounts=(VolumeMount(name="v", mount_path="/v"),))
    with pytest.raises(ConfigError, match='cannot find volume "v"'):
        list(container_mounts(make_pod(), bare, {}, {}))


def test_what_the_node_keeps_up_to_date_can_only_be_read() -> None:
    pod = with_volumes(
        Volume(name="cm", config_map=ConfigMapVolumeSource(name="cm")),
        Volume(name="e", empty_dir=EmptyDirVolumeSource()),
    )
    mounts = tuple(VolumeMount(name=name, mount_path=f"/{name}") for name in ("cm", "e"))
    found = container_mounts(pod, Container(name="c", volume_mounts=mounts), {"cm": "/x", "e": "/y"}, {})
    assert [mount.read_only for mount in found] == [True, False]


def test_changes_reach_the_volumes_of_a_running_pod(tmp_path: Path) -> None:
    async def body(client: Client) -> None:
        item = DownwardAPIVolumeFile(path="labels", field_ref=ObjectFieldSelector(field_path="metadata.labels"))
        pod = with_volumes(
            Volume(name="cm", config_map=ConfigMapVolumeSource(name="cm")),
            Volume(name="d", downward_api=DownwardAPIVolumeSource(items=(item,))),
        )
        maker = maker_for(client, pod, tmp_path)
        made = {name: Path(path) for name, path in (await maker.make()).items()}
        untouched = (made["cm"] / "a").stat().st_ino
        maps = client.resource(CONFIGMAPS, "default")
        await maps.update(replace(await maps.get("cm"), data={"a": "1", "c": "3"}, binary_data={}))
        await maker.refresh(replace(pod, metadata=replace(pod.metadata, labels={"x": "y"})))
        assert {path.name: path.read_text() for path in made["cm"].iterdir()} == {"a": "1", "c": "3"}
        assert (made["cm"] / "a").stat().st_ino == untouched
        assert (made["d"] / "labels").read_text() == 'x="y"'
        await maps.delete("cm")
        with pytest.raises(VolumeError):
            await maker.refresh(pod)
        assert (made["cm"] / "c").read_text() == "3", "what cannot be read stays as it is"

    play(body)


def test_a_token_is_renewed_before_it_expires(tmp_path: Path) -> None:
    async def body(client: Client) -> None:
        pod = token_volume()
        maker = maker_for(client, pod, tmp_path)
        file = Path((await maker.make())["t"]) / "token"
        first = file.stat().st_ino
        await asyncio.sleep(2800)
        await maker.refresh(pod)
        assert file.stat().st_ino == first
        await asyncio.sleep(100)
        await maker.refresh(pod)
        assert file.read_text() == "token of robot for vault, the second"

    play(body)
