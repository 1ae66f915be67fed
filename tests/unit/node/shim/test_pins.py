"""Parts of volumes at paths that no container can change. Each test plays the shim in a mount namespace of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.requirements import root

PROLOGUE = """
import sys
from pathlib import Path
from cathedra.node.shim import kernel
from cathedra.node.shim.pins import mount_pins, pin_path, release_pins
directory, volume = Path(sys.argv[1]), Path(sys.argv[2])
kernel.enter_mount_namespace()
def pin(part):
    mount_pins(directory, "c", [{"number": 0, "volume": str(volume), "part": part}])
    return pin_path(directory, "c", 0)
"""


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    root()
    made = tmp_path / "volume"
    (made / "a" / "b").mkdir(parents=True)
    (made / "a" / "b" / "file").write_text("content")
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "shadow").write_text("secret")
    (tmp_path / "containers").mkdir()
    return made


def shim(volume: Path, script: str) -> None:
    """Run ``script`` as the shim of ``volume``'s node would."""
    words = [sys.executable, "-c", PROLOGUE + script, str(volume.parent / "containers"), str(volume)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr


def test_a_directory_and_a_file_are_pinned_and_let_go(volume: Path) -> None:
    shim(
        volume,
        """
assert (pin("a/b") / "file").read_text() == "content"
release_pins(directory, "c")
assert pin("a/b/file").read_text() == "content"
release_pins(directory, "c")
release_pins(directory, "c")
assert not (directory / "pins" / "c").exists()
""",
    )
    assert (volume / "a" / "b" / "file").read_text() == "content"
    assert not list((volume.parent / "containers" / "pins").iterdir())


def test_what_has_become_a_link_since_is_not_followed(volume: Path) -> None:
    shim(
        volume,
        """
(volume / "a" / "b").rename(volume / "away")
(volume / "a" / "b").symlink_to(volume.parent / "host")
for part in ("a/b", "a/b/shadow", "a/../../host"):
    try:
        pin(part)
    except OSError as error:
        assert "is not what it was" in str(error) or "Not a directory" in str(error), error
    else:
        raise AssertionError(part)
""",
    )


def test_what_is_swapped_after_the_pin_changes_nothing(volume: Path) -> None:
    shim(
        volume,
        """
pinned = pin("a/b")
(volume / "a" / "b").rename(volume / "away")
(volume / "a" / "b").symlink_to(volume.parent / "host")
assert (pinned / "file").read_text() == "content" and not (pinned / "shadow").exists()
""",
    )


def test_a_pin_that_cannot_be_let_go_loses_no_content(volume: Path) -> None:
    shim(
        volume,
        """
pinned = pin("a/b")
kernel.unmount = lambda target: None
release_pins(directory, "c")
assert (pinned / "file").read_text() == "content"
""",
    )
    assert (volume / "a" / "b" / "file").read_text() == "content"


def test_nothing_of_it_is_seen_by_the_host(volume: Path) -> None:
    shim(volume, "pin('a/b')")
    assert list((volume.parent / "containers" / "pins" / "c" / "0").iterdir()) == []
