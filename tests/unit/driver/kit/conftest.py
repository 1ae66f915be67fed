"""The worked example with partitions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cathedra.driver import Driver
from cathedra.driver.loading import load_maker


@pytest.fixture
def slicer(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Driver]:
    monkeypatch.chdir(Path(__file__).parents[4] / "examples/drivers")
    monkeypatch.setattr("sys.path", [*sys.path])
    return load_maker("slicer:Slicer")
