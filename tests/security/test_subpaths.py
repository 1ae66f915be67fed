"""A volume's content is its pods': by links in it they must not make the node create or show anything elsewhere."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import pytest

from cathedra.node.setup.launch import make_subpath
from cathedra.node.setup.references import ContainerConfigError


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "host").mkdir()
    made = tmp_path / "volume"
    made.mkdir()
    made.chmod(0o2770)
    return made


def host(volume: Path) -> list[str]:
    """Return the files that were created outside the volume."""
    return sorted(os.listdir(volume.parent / "host"))


@pytest.mark.parametrize("target", ["../host", "/etc", "{host}", "inner/../../host", "../volume/../host"])
@pytest.mark.parametrize("rest", ["", "/new", "/new/deep"])
def test_a_link_that_leads_out_is_refused_and_nothing_is_made(volume: Path, target: str, rest: str) -> None:
    (volume / "inner").mkdir()
    (volume / "way").symlink_to(target.format(host=volume.parent / "host"))
    with pytest.raises(ContainerConfigError, match="leads out of the volume"):
        make_subpath(volume, f"way{rest}")
    assert host(volume) == []


def test_a_circle_of_links_ends(volume: Path) -> None:
    (volume / "a").symlink_to("b")
    (volume / "b").symlink_to("a")
    with pytest.raises(ContainerConfigError):
        make_subpath(volume, "a/x")


@pytest.mark.parametrize("part", ["..", "../host", "a/../../host", "/etc"])
def test_steps_back_are_refused(volume: Path, part: str) -> None:
    with pytest.raises(ContainerConfigError, match="must be a relative path"):
        make_subpath(volume, part)
    assert host(volume) == []


def test_a_directory_that_is_swapped_for_a_link_meanwhile_leads_nowhere(volume: Path) -> None:
    """The step is taken from an open directory, so whatever the name means by then does not matter."""
    outside = volume.parent / "host"
    stop = threading.Event()

    def swap() -> None:
        (volume / "link").symlink_to(outside)
        (volume / "dir").mkdir()
        while not stop.is_set():
            for name in ("dir", "link"):
                with contextlib.suppress(OSError):
                    os.rename(volume / name, volume / "way")
                    os.rename(volume / "way", volume / name)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for number in range(2000):
            with contextlib.suppress(ContainerConfigError, OSError):
                path = make_subpath(volume, f"way/{number}")
                assert path.startswith(f"{volume}/")
    finally:
        stop.set()
        swapper.join()
    assert host(volume) == []
