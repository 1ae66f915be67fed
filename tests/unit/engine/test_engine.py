"""The engine answers with the models and texts of the commands, and every error is an answer."""

from __future__ import annotations

import json
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from cathedra.api.resource import ResourceSlice
from cathedra.cli.dra.main import main
from cathedra.engine import Engine
from cathedra.engine import engine as engine_module
from cathedra.engine.limits import Limits
from cathedra.engine.messages import Usage
from cathedra.insight import read_dump
from cathedra.insight.inventory.usage import GROUPS

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "insight"
EXPRESSION = 'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].numa == 0'


def file_of(name: str) -> dict[str, str]:
    """An example as a page sends it, under the name that the command reads it by."""
    return {"name": str(EXAMPLES / name), "text": (EXAMPLES / name).read_text()}


@pytest.fixture
def engine() -> Engine:
    made = Engine()
    assert asked(made, question="load", files=[file_of("cluster.yaml")])["error"] is None
    return made


def asked(engine: Engine, **question: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(engine.answer_json(json.dumps(question)))
    return found


@pytest.mark.parametrize(
    ("words", "question"),
    [
        (["devices"], {"question": "devices"}),
        (["devices", "--node", "node-1", "--free"], {"question": "devices", "node": "node-1", "free": True}),
        (["explain", "-A"], {"question": "explain"}),
        (
            ["explain", "pod/train", "-n", "team-a"],
            {"question": "explain", "subject": "pod/train", "namespace": "team-a"},
        ),
        (
            ["explain", "-f", str(EXAMPLES / "training.yaml")],
            {"question": "explain", "files": [file_of("training.yaml")]},
        ),
        (
            ["simulate", "--add-nodes", "2=node-0", "--drain", "node-1"],
            {"question": "simulate", "addNodes": ["2=node-0"], "drain": ["node-1"]},
        ),
        (
            ["simulate", "--apply", str(EXAMPLES / "inference.yaml"), "--copies", "3"],
            {"question": "simulate", "files": [file_of("inference.yaml")], "copies": 3},
        ),
        (["match", EXPRESSION], {"question": "match", "expression": EXPRESSION}),
        (["usage", "-A", "--by", "node"], {"question": "usage", "by": "node"}),
        (["usage", "-n", "team-a"], {"question": "usage", "namespace": "team-a"}),
        (
            ["lint", str(EXAMPLES / "mistakes.yaml")],
            {"question": "lint", "files": [file_of("mistakes.yaml")], "against": True},
        ),
    ],
    ids=lambda given: " ".join(given[:3]) if isinstance(given, list) else "",
)
def test_an_answer_is_the_commands(
    engine: Engine,
    words: list[str],
    question: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    dump = ["--dump", str(EXAMPLES / "cluster.yaml")]
    main([*words, *dump])
    text = capsys.readouterr().out
    main([*words, *dump, "-o", "json"])
    model = json.loads(capsys.readouterr().out)
    answer = asked(engine, width=100, id="a", **question)
    assert answer["error"] is None
    assert answer["result"] == model
    assert answer["text"].rstrip("\n") == text.rstrip("\n")
    assert (answer["id"], answer["question"]) == ("a", question["question"])


def test_the_summary_counts_what_is_loaded(engine: Engine) -> None:
    found = asked(engine, question="summarize")["result"]
    assert found["devices"] == 12
    assert found["objects"]["Pod"] == 4
    assert found["namespaces"] == ["team-a", "team-b", "team-c"]


def test_an_expression_is_shown_part_by_part_on_a_device(engine: Engine) -> None:
    found = asked(engine, question="evaluate", expression=EXPRESSION, device="node-0/gpu-0")["result"]
    assert (found["type"], found["value"], found["device"]) == ("bool", "true", "gpu.example.com/node-0/gpu-0")
    parts = {one["source"]: one["value"] for one in found["parts"]}
    assert parts["device.driver"] == "gpu.example.com"
    (part,) = (one for one in found["parts"] if one["source"] == "device.driver")
    assert EXPRESSION[part["start"] : part["end"]] == "device.driver"


@pytest.mark.parametrize("question", ["match", "evaluate"])
def test_an_error_of_an_expression_has_its_place(engine: Engine, question: str) -> None:
    error = asked(engine, question=question, expression='device.driver == \n"a" && nothing')["error"]
    assert (error["reason"], error["line"], error["column"]) == ("invalid", 2, 8)


def test_an_expression_is_completed_from_the_devices_at_hand(engine: Engine) -> None:
    found = asked(engine, question="complete", before='device.attributes["gpu.example.com"].mo')["result"]
    assert found["completions"] == [{"text": "model", "replaced": 2}]


def test_completions_follow_the_state(engine: Engine) -> None:
    before = 'device.attributes["gp'
    assert asked(engine, question="complete", before=before)["result"]["completions"]
    nothing = {"name": "node.yaml", "text": "apiVersion: v1\nkind: Node\nmetadata: {name: n1}"}
    assert asked(engine, question="load", files=[nothing])["error"] is None
    assert asked(engine, question="complete", before=before)["result"]["completions"] == []


def test_an_object_is_shown_as_the_api_has_it(engine: Engine) -> None:
    answer = asked(engine, question="object", objectKind="ResourceClaim", name="bert", namespace="team-b", width=80)
    assert answer["result"]["object"]["apiVersion"] == "resource.k8s.io/v1"
    assert answer["result"]["object"]["metadata"]["name"] == "bert"
    assert answer["text"].startswith("apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\n")


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ({"question": "explain", "subject": "pod/none"}, "there is no pod"),
        ({"question": "devices", "node": "none"}, "there is no node 'none'"),
        ({"question": "load", "files": [{"name": "a.yaml", "text": "a: ["}]}, "a.yaml"),
        ({"question": "load", "files": [{"name": "a.yaml"}]}, "either text or content"),
        ({"question": "load", "files": [], "release": "1.99"}, "1.99"),
        ({"question": "load", "files": [{"name": "a.zip", "content": "eA=="}]}, "no zip archive"),
        ({"question": "usage", "by": "team"}, "$.by"),
        ({"question": "simulate", "addNodes": ["many"]}, "N=NODE"),
        ({"question": "simulate", "addNodes": ["1=/etc/hostname"]}, "no profile"),
        ({"question": "simulate", "addNodes": ["1=data/../h100-8.yaml"]}, "no profile"),
        ({"question": "simulate", "copies": 10**9}, "copies"),
        ({"question": "simulate", "files": [{"name": "m.yaml", "text": "3"}]}, "m.yaml"),
        ({"question": "object", "objectKind": "Secret", "name": "s"}, "not read"),
        ({"question": "evaluate", "expression": "true", "device": "none"}, "there is no device 'none'"),
        ({"question": "unknown"}, "unknown"),
        ({"question": "load", "files": 3}, "$.files"),
        ({}, "question"),
    ],
    ids=str,
)
def test_what_cannot_be_answered_is_an_answer(engine: Engine, question: dict[str, Any], text: str) -> None:
    answer = asked(engine, id=4, **question)
    assert answer["error"]["reason"] == "invalid"
    assert text in answer["error"]["text"]
    assert (answer["id"], answer["result"]) == (4, None)


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"[]", b"{", b"[" * 100_000], ids=["empty", "binary", "list", "half", "deep"]
)
def test_a_body_that_is_no_question_is_answered(body: bytes) -> None:
    assert json.loads(Engine().answer_json(body))["error"]["reason"] == "invalid"


def test_a_question_before_anything_is_loaded_is_answered() -> None:
    assert asked(Engine(), question="devices")["error"]["text"] == "no cluster is loaded"


def test_files_do_not_replace_the_state_of_a_server() -> None:
    engine = Engine(read_dump(EXAMPLES / "cluster.yaml"))
    node = {"name": "node.yaml", "text": "apiVersion: v1\nkind: Node\nmetadata: {name: n1}"}
    assert "cannot be loaded here" in asked(engine, question="load", files=[node])["error"]["text"]
    assert asked(engine, question="summarize")["result"]["devices"] == 12


def test_a_dump_that_cannot_be_read_leaves_the_state_as_it_is(engine: Engine) -> None:
    assert asked(engine, question="load", files=[{"name": "a.yaml", "text": "a: ["}])["error"]
    assert asked(engine, question="summarize")["result"]["devices"] == 12


@pytest.mark.parametrize(
    "question",
    [
        {"question": "summarize"},
        {"question": "evaluate", "expression": EXPRESSION, "device": "node-0/gpu-0"},
        {"question": "complete", "before": "device.attr"},
        {"question": "object", "objectKind": "Pod", "name": "train", "namespace": "team-a"},
        {"question": "explain", "subject": "pod/none"},
    ],
    ids=str,
)
def test_questions_and_answers_obey_their_schemas(engine: Engine, question: dict[str, Any]) -> None:
    def validate(name: str, value: Any) -> None:
        jsonschema_rs.validate(json.loads((ROOT / "docs" / "schemas" / f"{name.lower()}.json").read_text()), value)

    validate("question", question)
    answer = asked(engine, **question)
    validate("answer", answer)
    if answer["result"] is not None:
        validate(answer["result"]["kind"], answer["result"])


def test_a_fault_of_the_program_is_an_answer(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(engine_module, "devices", broken)
    error = asked(engine, question="devices")["error"]
    assert (error["reason"], error["text"]) == ("internal", "ZeroDivisionError: division by zero")


def test_a_state_that_is_set_has_no_devices_beyond_the_limit_and_says_so() -> None:
    engine = Engine(read_dump(EXAMPLES / "cluster.yaml"), Limits(devices=8))
    found = asked(engine, question="map", id=7)
    assert len(found["result"]["devices"]) == 8
    few = asked(Engine(read_dump(EXAMPLES / "cluster.yaml"), Limits(devices=4)), question="map")["result"]["devices"]
    assert {one["state"] for one in few} == {"free", "held"}, "a held device is not gone because its slice is left out"
    assert found["leftOut"] == ["4 devices of 1 slice beyond the first 8"]
    assert found["id"] == 7


def test_it_loads_no_database_which_the_python_of_a_page_lacks() -> None:
    code = "import sys, cathedra.engine; sys.exit('sqlite3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_use_is_summed_by_what_the_command_offers() -> None:
    offered = typing.get_args(typing.get_type_hints(Usage)["by"])
    assert offered == tuple(GROUPS)


def test_nodes_are_added_like_a_profile_by_its_name(engine: Engine) -> None:
    assert asked(engine, question="simulate", addNodes=["1=h100-8-mig"])["error"] is None


def test_the_map_is_made_and_encoded_once_for_each_state() -> None:
    engine = Engine(read_dump(EXAMPLES / "cluster.yaml"))
    first, again = (asked(engine, question="map", id=number) for number in (1, 2))
    assert {**first, "id": 0} == {**again, "id": 0}
    assert engine.map is engine.map
    assert "h100-8" in first["result"]["profiles"]
    engine.replace(engine.state.without(engine.state.all(ResourceSlice)[:1]))
    assert len(asked(engine, question="map")["result"]["devices"]) < len(first["result"]["devices"])
