"""Secrets and tokens of pods lie in files of the node: other users of the machine do not get at them."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cathedra.certificates.authority import Authority
from cathedra.clock import SystemClock
from cathedra.node.setup.directories import PodDirectories
from tests.running import beside
from tests.security.test_node_server import folder, make_agent
from tests.unit.node.fakes import NodeTransport, make_pod

__all__ = ["folder"]


@pytest.fixture
def _any_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("_any_umask")
def test_a_pods_directories_are_closed_whatever_the_umask(tmp_path: Path) -> None:
    directories = PodDirectories(tmp_path, make_pod("p"))
    directories.make()
    assert [permissions(path) for path in (directories.home, directories.logs)] == [0o700, 0o700]
    directories.set_generation(1)
    assert permissions(directories.home / "generation") == 0o600


@pytest.mark.usefixtures("_any_umask")
def test_a_pods_directories_that_were_open_are_closed(tmp_path: Path) -> None:
    directories = PodDirectories(tmp_path, make_pod("p"))
    directories.home.mkdir(parents=True)
    directories.logs.mkdir()
    directories.make()
    assert [permissions(path) for path in (directories.home, directories.logs)] == [0o700, 0o700]


@pytest.mark.usefixtures("_any_umask")
async def test_an_agent_closes_what_an_earlier_one_left_open(folder: Path) -> None:
    root = folder / "n"
    secret = root / "pods" / "uid" / "volumes" / "kubernetes.io~secret" / "s" / "password"
    secret.parent.mkdir(parents=True)
    secret.write_text("hunter2")
    (root / "containers").mkdir()
    (folder / "ca.crt").write_bytes(Authority.make(SystemClock().now()).pair.certificate)
    agent = make_agent(folder, NodeTransport(), folder / "ca.crt")
    async with beside(agent.run()):
        await asyncio.wait_for(agent.wait_ready(), 120)
        assert {name: permissions(root / name) for name in ("pods", "containers", "pki")} == {
            "pods": 0o700,
            "containers": 0o700,
            "pki": 0o700,
        }
        for sockets in ("plugins", "plugins_registry", "pod-resources"):
            assert permissions(root / sockets) == 0o750
        assert permissions(root / "pki" / "kubelet.key") == 0o600
