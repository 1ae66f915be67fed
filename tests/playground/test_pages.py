"""The bundle and the pages, as far as they can be checked without node."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tools import playground

from tests.playground.test_webassembly import QUESTIONS

_LOADED = """
import json, sys
from cathedra.engine import Engine
engine = Engine()
for question in json.load(sys.stdin):
    engine.answer_json(json.dumps(question))
print(json.dumps([name for name in sys.modules if name.split(".")[0] == "cathedra"]))
"""


def test_the_bundle_has_every_module_that_an_answer_loads() -> None:
    command = [sys.executable, "-c", _LOADED]
    done = subprocess.run(command, input=json.dumps(QUESTIONS), capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) - playground.bundled_modules() == set()


def test_the_bundle_has_no_commands_and_no_servers() -> None:
    """They would make the page larger; the engine never imports them."""
    packages = {name.split(".")[1] for name in playground.bundled_modules() if "." in name}
    assert packages.isdisjoint({"cli", "page", "drivercheck", "testing", "session"})


def test_the_bundle_has_the_data_of_its_modules_and_nothing_for_another_machine() -> None:
    names = playground.bundled_sources().keys()
    assert {"cathedra/profiles/data/h100-8.yaml", "cathedra/cel/regex/unicode.txt", "yaml/parser.py"} <= names
    assert [name for name in names if name.endswith((".pyi", ".pyc", "linux-gnu.so"))] == []


def test_modules_come_after_those_that_they_import() -> None:
    modules = {"a.js": 'import "module:b.js";', "b.js": 'import "module:c.js";', "c.js": ""}
    assert [name for name, _ in playground.in_order(modules)] == ["c.js", "b.js", "a.js"]


def test_modules_that_import_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match=r"a\.js, b\.js"):
        list(playground.in_order({"a.js": 'import "module:b.js";', "b.js": 'import "module:a.js";'}))
