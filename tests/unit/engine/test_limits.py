"""Hostile dumps are bounded, and every answer names the parts that were left out."""

from __future__ import annotations

import base64
import io
import json
import tarfile
import zipfile
from typing import Any

import pytest

from cathedra.engine import Engine, Limits

SMALL = Limits(bytes=200_000, object_bytes=20_000, objects=50, devices=10, notes=12, characters=1000, text=500)


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def slice_of(name: str, devices: int, **attribute: Any) -> dict[str, Any]:
    attributes = {"model": attribute} if attribute else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{number}", "attributes": attributes} for number in range(devices)],
        },
    }


def sent(*objects: Any, name: str = "dump.json") -> dict[str, str]:
    return {"name": name, "text": json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})}


def packed(content: bytes, name: str) -> dict[str, str]:
    return {"name": name, "content": base64.b64encode(content).decode()}


def asked(engine: Engine, **question: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(engine.answer_json(json.dumps(question)))
    return found


def test_a_slice_that_still_fits_is_read_and_objects_between_slices_count_for_nothing() -> None:
    engine = Engine(limits=SMALL)
    between = {"apiVersion": "example.com/v1", "kind": "Other", "metadata": {"name": "o"}}
    pieces = [slice_of("a", 6), between, slice_of("b", 8), between, slice_of("c", 4), slice_of("d", 1)]
    loaded = asked(engine, question="load", files=[sent(*pieces)])
    assert loaded["result"]["devices"] == 10
    assert loaded["leftOut"] == ["9 devices of 2 slices beyond the first 10"]


def test_slices_beyond_the_most_devices_are_left_out() -> None:
    engine = Engine(limits=SMALL)
    loaded = asked(engine, question="load", files=[sent(slice_of("n1", 8), slice_of("n2", 5), slice_of("n3", 2))])
    assert loaded["leftOut"] == ["5 devices of 1 slice beyond the first 10"]
    assert loaded["result"]["devices"] == 10
    # Later answers repeat it: the table alone would look complete.
    assert asked(engine, question="devices")["leftOut"] == loaded["leftOut"]


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_an_object_that_no_server_accepts_is_left_out(suffix: str) -> None:
    engine = Engine(limits=SMALL)
    large = slice_of("large", 1, string="x" * 30_000)
    loaded = asked(engine, question="load", files=[sent(node("n1"), large, name=f"dump.{suffix}")])
    (text,) = loaded["leftOut"]
    assert text.startswith("1 object longer than 0 MiB")
    assert "ResourceSlice large" in text
    assert loaded["result"]["objects"] == {"Node": 1}


def test_objects_beyond_the_most_are_counted() -> None:
    loaded = asked(Engine(limits=SMALL), question="load", files=[sent(*(node(f"n{i}") for i in range(57)))])
    assert loaded["leftOut"] == ["7 objects beyond the first 50"]


def test_files_that_are_too_long_are_refused() -> None:
    error = asked(Engine(limits=SMALL), question="load", files=[{"name": "a", "text": "x" * 300_000}])["error"]
    assert "longer than" in error["text"]


def test_notes_are_bounded() -> None:
    files = [sent(node("n1")), *({"name": f"{i}.yaml", "text": "a: ["} for i in range(20))]
    loaded = asked(Engine(limits=SMALL), question="load", files=files)
    assert len(loaded["result"]["notes"]) == 12
    assert any("notes on the dump" in text for text in loaded["leftOut"])


def test_long_strings_are_cut_in_answers() -> None:
    engine = Engine(limits=SMALL)
    asked(engine, question="load", files=[sent(slice_of("n1", 2, string='x"' * 3000))])
    answer = asked(engine, question="devices", width=100, wide=True)
    assert len(answer["result"]["devices"][0]["attributes"]["model"]) == 1000
    assert len(answer["text"]) == 501
    assert answer["leftOut"] == ["the ends of 2 strings longer than 1,000 characters", "the text after 500 characters"]


def test_one_damaged_file_does_not_hide_the_others() -> None:
    loaded = asked(Engine(), question="load", files=[sent(node("n1")), {"name": "b.yaml", "text": "a: ["}])
    assert loaded["result"]["objects"] == {"Node": 1}
    assert any("b.yaml" in note["text"] for note in loaded["result"]["notes"])


def test_an_object_without_a_name_does_not_hide_the_others() -> None:
    nameless = {"apiVersion": "v1", "kind": "Node", "metadata": 5}
    loaded = asked(Engine(), question="load", files=[sent(nameless, node("n1"))])
    assert loaded["result"]["objects"] == {"Node": 1}
    assert asked(Engine(), question="load", files=[sent(nameless)])["error"]["reason"] == "invalid"


@pytest.mark.parametrize("form", ["zip", "tar.gz"])
def test_archives_are_read_from_their_bytes(form: str) -> None:
    body = json.dumps(node("n1")).encode()
    made = io.BytesIO()
    if form == "zip":
        with zipfile.ZipFile(made, "w") as archive:
            archive.writestr("cluster/nodes.json", body)
    else:
        with tarfile.open(fileobj=made, mode="w:gz") as tar:
            info = tarfile.TarInfo("cluster/nodes.json")
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    loaded = asked(Engine(), question="load", files=[packed(made.getvalue(), f"must-gather.{form}")])
    assert loaded["result"]["objects"] == {"Node": 1}
    assert loaded["result"]["source"] == f"must-gather.{form}"


def test_markup_in_names_stays_text() -> None:
    engine = Engine()
    name = "<img src=x onerror=alert(1)>"
    asked(engine, question="load", files=[sent(slice_of(name, 1))])
    assert asked(engine, question="devices")["result"]["devices"][0]["node"] == name
