"""Orders to a driver from the command line."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cathedra.cli.main import main
from cathedra.drivers.example.controls import Controls, serving_controls


class Listening:
    """A driver that takes orders, in a thread of its own."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._ended = asyncio.Event()
        async with serving_controls(Controls(lambda: ["gpu-0"], lambda: None), self._directory):
            self._ready.set()
            await self._ended.wait()

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A kubelet's directory with one driver that takes orders, and one that does not."""
    (tmp_path / "plugins/other.example.com").mkdir(parents=True)
    listening = Listening(tmp_path / "plugins/gpu.example.com")
    listening.start()
    yield tmp_path
    listening.stop()


def control(root: Path, *words: str) -> int:
    return main(["driver-control", "--root-dir", str(root), *words])


def test_the_only_driver_that_takes_orders_is_meant(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert control(root, "taint", "gpu-0", "broken=yes:NoSchedule") == 0
    assert capsys.readouterr().out == "gpu-0: taint broken=yes:NoSchedule\n"
    assert control(root, "--driver-name", "gpu.example.com", "show") == 0
    assert capsys.readouterr().out == "gpu-0: taint broken=yes:NoSchedule\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["dance"], "cathedra: 'dance' is no order; there are "),
        (["health", "gpu-9", "Healthy"], "cathedra: there is no device 'gpu-9'; there are gpu-0"),
        (["--driver-name", "other.example.com", "show"], "cathedra: no driver takes orders at "),
        (["--driver-name", "none.example.com", "show"], "cathedra: no driver takes orders at "),
    ],
)
def test_what_cannot_be_done_is_one_line(
    root: Path, capsys: pytest.CaptureFixture[str], words: list[str], line: str
) -> None:
    assert control(root, *words) == 2
    told = capsys.readouterr().err
    assert told.startswith(line)
    assert len(told.splitlines()) == 1


def test_a_node_without_such_a_driver_says_where_it_was_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert control(tmp_path, "show") == 2
    assert capsys.readouterr().err == (
        f"cathedra: no driver on node-0 takes orders (looked in {tmp_path / 'plugins'})\n"
    )
