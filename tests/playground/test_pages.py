"""The bundle and the pages, as far as they can be checked without node."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools import playground

from tests.playground.test_webassembly import QUESTIONS
from tests.requirements import program

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


# A worker that answers like the engine. Its WebAssembly ends with a question «end», and with «load» as often as given.
_ENDED = """
import { WorkerEngine } from "./worker-engine.mjs";
const posted = [];
let fatalLoads = Number(process.argv[2]);
class FakeWorker {
  postMessage(message) {
    const { id, question } = message.load ?? (typeof message === "string" ? JSON.parse(message) : {});
    if (message.start !== undefined) return queueMicrotask(() => this.onmessage({ data: { ready: {} } }));
    posted.push(question);
    const ended = question === "end" || (question === "load" && posted.length > 1 && fatalLoads-- > 0);
    const data = ended ? { ended: "out of stack" } : JSON.stringify({ id, question, result: {}, error: null });
    queueMicrotask(() => this.onmessage({ data }));
  }
  terminate() {}
}
const engine = new WorkerEngine(() => new FakeWorker());
await engine.load([["dump.json", null]]);
const fault = await engine.ask("end").catch((error) => error.message);
await new Promise((done) => setTimeout(done, 50));
await engine.ask("summarize");
console.log(JSON.stringify([fault, posted]));
"""


@pytest.mark.parametrize(
    ("fatal_loads", "posted"),
    [(0, ["load", "end", "load", "summarize"]), (9, ["load", "end", "load", "summarize"])],
)
def test_an_engine_that_has_ended_is_started_again_with_its_files_once(
    tmp_path: Path, fatal_loads: int, posted: list[str]
) -> None:
    """Files that end it again are given up: it would be started forever."""
    engine = (playground.PLAYGROUND / "worker-engine.js").read_text().replace("./engine.js", "./engine.mjs")
    (tmp_path / "worker-engine.mjs").write_text(engine)
    shutil.copy(playground.STATIC / "engine.js", tmp_path / "engine.mjs")
    (tmp_path / "ended.mjs").write_text(_ENDED)
    command = [program("node"), "ended.mjs", str(fatal_loads)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    fault, found = json.loads(done.stdout)
    assert fault == "the engine ended, and was started again: out of stack"
    assert found == posted
