"""Files that the node keeps as they should be."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cathedra.api.core.core_v1 import (
    Container,
    EmptyDirVolumeSource,
    PodSecurityContext,
    SecurityContext,
    Volume,
)
from cathedra.client.client import Client
from cathedra.node.setup.payload import Owner, PayloadFile, give_to_group, owner_of, write_payload
from tests.requirements import root
from tests.unit.node.fakes import make_pod
from tests.unit.node.setup.cases import make, maker_for, play, token_volume, with_volumes


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
