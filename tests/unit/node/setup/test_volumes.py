"""Volumes as directories of the node (docs/spec/node.md §17)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import (
    ConfigMapVolumeSource,
    Container,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    HostPathVolumeSource,
    KeyToPath,
    NFSVolumeSource,
    ObjectFieldSelector,
    PodSecurityContext,
    ResourceRequirements,
    SecretVolumeSource,
    SecurityContext,
    Volume,
)
from cathedra.api.quantity import Quantity
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.resources import CONFIGMAPS
from cathedra.node.setup.references import VolumeError
from cathedra.node.setup.volumes import (
    Owner,
    PayloadFile,
    give_to_group,
    memory_size,
    mounts_are_shared,
    owner_of,
    write_payload,
)
from tests.requirements import root
from tests.running import run_with
from tests.unit.node.fakes import make_pod
from tests.unit.node.setup.cases import FACTS, make, maker_for, play, token_volume, with_volumes


@run_with(play)
async def test_files_of_volumes_have_the_content_and_modes_that_were_asked_for(
    client: Client, *, tmp_path: Path
) -> None:
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
@run_with(play)
async def test_a_volume_that_cannot_be_made_says_why(
    client: Client, *, tmp_path: Path, volume: Volume, complaint: str
) -> None:
    with pytest.raises(VolumeError, match=f'MountVolume.SetUp failed for volume "v" : .*{complaint}'):
        await make(client, with_volumes(volume), tmp_path)


@run_with(play)
async def test_changes_reach_the_volumes_of_a_running_pod(client: Client, *, tmp_path: Path) -> None:
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


# Files that the node keeps as they should be.


def files(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def test_a_directory_holds_these_files_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    assert write_payload(tmp_path, [PayloadFile("a", b"1", 0o644), PayloadFile("deep/b", b"2", 0o400)], Owner())
    assert files(tmp_path) == {"a": b"1", "deep/b": b"2"}
    assert (tmp_path / "deep" / "b").stat().st_mode & 0o777 == 0o400


def test_what_is_right_is_left_alone(tmp_path: Path) -> None:
    wanted = [PayloadFile("a", b"1", 0o644)]
    write_payload(tmp_path, wanted, Owner())
    before = (tmp_path / "a").stat().st_ino
    assert not write_payload(tmp_path, wanted, Owner())
    assert (tmp_path / "a").stat().st_ino == before
    assert write_payload(tmp_path, [PayloadFile("a", b"2", 0o644)], Owner())
    assert (tmp_path / "a").stat().st_ino != before, "a reader of the old file keeps it"


def test_a_file_of_an_earlier_attempt_is_in_no_ones_way(tmp_path: Path) -> None:
    (tmp_path / ".a.tmp").write_text("half")
    write_payload(tmp_path, [PayloadFile("a", b"1", 0o644)], Owner())
    assert files(tmp_path) == {"a": b"1"}


@run_with(play)
async def test_an_empty_directory_is_the_groups_and_so_is_what_is_made_in_it(client: Client, *, tmp_path: Path) -> None:
    root()
    volume = Volume(name="e", empty_dir=EmptyDirVolumeSource())
    made = await make(client, with_volumes(volume, security_context=PodSecurityContext(fs_group=2000)), tmp_path)
    (made["e"] / "file").touch()
    assert (made["e"] / "file").stat().st_gid == 2000


def test_the_owner_is_the_user_only_if_all_containers_agree() -> None:
    def container(name: str, user: int | None) -> Container:
        return Container(name=name, security_context=SecurityContext(run_as_user=user))

    shared = PodSecurityContext(run_as_user=5, fs_group=7)
    assert owner_of(make_pod("p", container("a", None), security_context=shared)) == Owner(5, 7)
    assert owner_of(make_pod("p", container("a", 6), container("b", None), security_context=shared)) == Owner(None, 7)
    assert owner_of(make_pod("p", container("a", 6))) == Owner(6, None)


def test_links_in_a_volume_give_nothing_outside_away(tmp_path: Path) -> None:
    """A pod leaves links in its empty directory, and the node comes back and makes the volume again."""
    root()
    outside, volume = tmp_path / "shadow", tmp_path / "volume"
    volume.mkdir()
    outside.write_text("secret")
    outside.chmod(0o600)
    (tmp_path / "etc").mkdir(mode=0o700)
    (volume / "file").symlink_to(outside)
    (volume / "directory").symlink_to(tmp_path / "etc")
    (volume / "dangling").symlink_to("nowhere")
    (volume / "own").touch(mode=0o600)
    give_to_group(volume, Owner(None, 2000), writable=True)
    assert (outside.stat().st_gid, outside.stat().st_mode & 0o777) == (0, 0o600)
    assert ((tmp_path / "etc").stat().st_gid, (tmp_path / "etc").stat().st_mode & 0o777) == (0, 0o700)
    assert ((volume / "own").stat().st_gid, (volume / "own").stat().st_mode & 0o777) == (2000, 0o660)
    assert (volume.stat().st_gid, volume.stat().st_mode & 0o2070) == (2000, 0o2070)


@run_with(play)
async def test_a_token_is_issued_for_the_pods_account_and_audience(client: Client, *, tmp_path: Path) -> None:
    made = await make(client, token_volume(), tmp_path)
    assert (made["t"] / "token").read_text() == "token of robot for vault"
    assert (made["t"] / "token").stat().st_mode & 0o777 == 0o644


@run_with(play)
async def test_a_token_belongs_to_the_user_that_all_containers_run_as(client: Client, *, tmp_path: Path) -> None:
    root()
    made = await make(client, token_volume(run_as_user=1000, fs_group=2000), tmp_path)
    found = (made["t"] / "token").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1000, 2000, 0o640)


@run_with(play)
async def test_a_token_is_renewed_before_it_expires(client: Client, *, tmp_path: Path) -> None:
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
