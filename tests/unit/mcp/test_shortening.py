"""A model that is too long is cut to its size, and each cut is stated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cathedra.mcp.shortening import shortened


def size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def test_a_model_that_fits_is_returned_as_it_is() -> None:
    model = {"devices": [{"name": "gpu-0", "taints": []}], "text": ""}
    assert shortened(model, 100) == (model, ())


def test_a_long_list_is_cut_and_the_number_of_its_items_is_stated() -> None:
    shown, left_out = shortened({"nodes": [f"node-{number}" for number in range(5000)], "fits": False}, 500)
    kept = len(shown["nodes"])
    assert shown == {"nodes": [f"node-{number}" for number in range(kept)], "fits": False}
    assert kept > 5
    assert left_out == (f"nodes: the first {kept} of 5,000 are shown", "empty fields")


def test_the_list_that_takes_most_room_is_cut_first() -> None:
    model = {"devices": [{"name": "x" * 90} for _ in range(1000)], "drivers": ["one", "two"]}
    shown, left_out = shortened(model, 1000)
    assert shown["drivers"] == ["one", "two"]
    assert 1 < len(shown["devices"]) < 11
    assert len(left_out) == 2


def test_an_item_is_left_of_an_outer_list_whose_items_are_long() -> None:
    model = {"groups": [{"why": "cpu", "nodes": [f"node-{number}" for number in range(900)]} for _ in range(9)]}
    shown, left_out = shortened(model, 300)
    assert shown["groups"][0]["why"] == "cpu"
    assert shown["groups"][0]["nodes"]
    assert left_out[0].startswith("groups: the first 1 of 9")
    assert left_out[1].startswith("groups[].nodes: the first ")


def test_a_table_with_many_keys_is_cut_as_a_list_is_and_a_struct_is_not() -> None:
    struct = {f"field{number}": 1 for number in range(30)}
    shown, left_out = shortened({"nodes": {f"node-{number}": 8 for number in range(5000)}, "one": struct}, 900)
    assert 0 < len(shown["nodes"]) < 50
    assert shown["one"] == struct
    assert left_out[0].endswith("of 5,000 are shown")


def test_a_long_string_is_cut() -> None:
    shown, left_out = shortened({"kind": "Explanation", "summary": "é" * 9000}, 400)
    assert shown["summary"].endswith("é…")
    assert left_out[0].startswith("the ends of 1 strings longer than ")


@pytest.mark.parametrize("most", [100, 300, 1000, 6000])
@pytest.mark.parametrize(
    "model",
    [
        {"a": [[["deep"] * 60] * 60] * 60},
        {"a": {f"key-{one}": [{"b": "x" * 2000, "c": list(range(99))}] * 70 for one in range(300)}},
        {f"{'long' * 50}{one}": "x" for one in range(40)},
        {"kind": "K", "a": "\\" * 9000, "b": ['"' * 500] * 400},
    ],
)
def test_no_model_is_longer_than_asked_for(model: dict[str, Any], most: int) -> None:
    shown, left_out = shortened(model, most)
    assert size(shown) + size(left_out) <= most
    assert left_out
