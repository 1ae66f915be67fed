"""A driver by the name of its class."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cathedra.driver.driver import Driver
from cathedra.driver.errors import OptionError
from cathedra.driver.loading import load_driver, load_maker

MODULE = """
from cathedra.driver import Driver

class Good(Driver):
    name = "good.example.com"

def make():
    return Good()

def rooted(config=None, driver_root=None):
    driver = Good()
    driver.given = (config, driver_root)
    return driver

nothing = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "authors_driver.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    return "authors_driver"


@pytest.mark.parametrize("name", ["Good", "make"])
def test_a_driver_is_found_by_its_class_or_by_what_makes_it(module: str, name: str) -> None:
    driver = load_driver(f"{module}:{name}")
    assert isinstance(driver, Driver)
    assert driver.name == "good.example.com"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("authors_driver", "must be MODULE:DRIVER"),
        ("authors_driver.py:Good", "without .py: authors_driver:Good"),
        ("authors_driver:Bad", "has no attribute 'Bad'"),
        ("authors_driver:nothing", "makes a int, which is no cathedra.driver.Driver"),
        ("no_such_module:Good", "No module named 'no_such_module' (looked in "),
    ],
)
def test_a_driver_that_is_not_there_is_one_line(module: str, text: str, reason: str) -> None:
    with pytest.raises(OptionError) as refused:
        load_driver(text)
    assert reason in str(refused.value)


def test_what_makes_a_driver_can_be_had_without_making_one(module: str) -> None:
    make = load_maker(f"{module}:Good")
    assert make() is not make()


def test_a_driver_gets_its_file_and_its_root(module: str) -> None:
    driver = load_driver(f"{module}:rooted", Path("a.yaml"), Path("/opt/nv"))
    assert vars(driver)["given"] == (Path("a.yaml"), Path("/opt/nv"))
    with pytest.raises(OptionError, match="takes no --driver-root"):
        load_driver(f"{module}:make", driver_root=Path("/opt/nv"))
