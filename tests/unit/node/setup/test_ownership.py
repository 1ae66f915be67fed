"""Whose the files of volumes are."""

from __future__ import annotations

from pathlib import Path

from cathedra.api.core.core_v1 import (
    Container,
    EmptyDirVolumeSource,
    PodSecurityContext,
    SecurityContext,
    Volume,
)
from cathedra.client.client import Client
from cathedra.node.setup.ownership import Owner, give_to_group, owner_of
from tests.requirements import root
from tests.unit.node.fakes import make_pod
from tests.unit.node.setup.cases import make, play, with_volumes


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
