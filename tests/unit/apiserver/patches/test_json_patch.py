"""JSON patch as Kubernetes' library carries it out, with its limits."""

from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.nesting import MAX_DEPTH
from cathedra.apiserver.patches.json_patch import COPY_LIMIT, JSONPatchError, json_patch, malformed_operation
from tests.costs import costs_less_than

DOCUMENT = {"a": {"b": [1, 2, 3], "c": None}, "d": "x", "": 0, "m/n": 1, "~": 2}


@pytest.mark.parametrize(
    ("operation", "path", "found"),
    [
        ({"op": "add", "path": "/a/b/-", "value": 4}, "/a/b", [1, 2, 3, 4]),
        ({"op": "add", "path": "/a/b/-1", "value": 4}, "/a/b", [1, 2, 3, 4]),
        ({"op": "add", "path": "/a/b/+1", "value": 4}, "/a/b", [1, 4, 2, 3]),
        ({"op": "add", "path": "/a/n"}, "/a/n", None),
        ({"op": "replace", "path": "/a/n", "value": 1}, "/a/n", 1),
        ({"op": "replace", "path": "/a/b/-1", "value": 9}, "/a/b", [1, 2, 9]),
        ({"op": "remove", "path": "/a/b/0"}, "/a/b", [2, 3]),
        ({"op": "copy", "from": "/nothing", "path": "/n"}, "/n", None),
        ({"op": "copy", "from": "/a/b", "path": "/n"}, "/n", [1, 2, 3]),
        ({"op": "move", "from": "/a/b/0", "path": "/a/b/-"}, "/a/b", [2, 3, 1]),
        ({"op": "add", "path": "ignored/n", "value": 1}, "/n", 1),
        ({"op": "replace", "path": "/m~1n", "value": 5}, "/m~1n", 5),
        ({"op": "replace", "path": "/~0", "value": 5}, "/~0", 5),
        ({"op": "replace", "path": "/", "value": 5}, "/", 5),
    ],
)
def test_operations(operation: Any, path: str, found: Any) -> None:
    before = copy.deepcopy(DOCUMENT)
    after = json_patch(before, [operation])
    for part in path.split("/")[1:]:
        after = after[part.replace("~1", "/").replace("~0", "~")]
    assert after == found
    assert before == DOCUMENT


@pytest.mark.parametrize(
    ("path", "value", "holds"),
    [
        ("/d", "x", True),
        ("/d", "y", False),
        ("/nothing", None, True),
        ("/nothing", 1, False),
        ("/a/c", None, True),
        ("/a/b/0", True, False),
        ("/a/b/0", 1.0, False),
        ("/a/b", [1, 2, 3], True),
        ("/a/b/7", None, False),
        ("/nothing/deeper", None, False),
        ("", DOCUMENT, True),
    ],
)
def test_test_compares_what_is_spelled(path: str, value: Any, holds: bool) -> None:
    operations = [{"op": "test", "path": path, "value": value}]
    if holds:
        assert json_patch(DOCUMENT, operations) == DOCUMENT
    else:
        with pytest.raises(JSONPatchError):
            json_patch(DOCUMENT, operations)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/a/b/9", "value": 1},
        {"op": "add", "path": "/a/b/-9", "value": 1},
        {"op": "add", "path": "/a/b/x", "value": 1},
        {"op": "add", "path": "/a/b/99999999999999999999", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "path": "/nothing/deeper", "value": 1},
        {"op": "replace", "path": "/a/b/-", "value": 1},
        {"op": "replace", "path": "", "value": 1},
        {"op": "replace", "path": ""},
        {"op": "remove", "path": "/nothing"},
        {"op": "remove", "path": ""},
        {"op": "move", "from": "/nothing", "path": "/n"},
        {"op": "move", "path": "/n"},
        {"op": "copy", "from": "", "path": "/n"},
        {"op": "fly", "path": "/d"},
        {"op": "add"},
        {},
        None,
    ],
)
def test_operations_that_cannot_be_carried_out(operation: Any) -> None:
    with pytest.raises(JSONPatchError):
        json_patch(DOCUMENT, [operation])


def test_the_document_may_become_a_list() -> None:
    assert json_patch({}, [{"op": "replace", "path": "", "value": [1]}, {"op": "add", "path": "/-", "value": 2}]) == [
        1,
        2,
    ]


def test_operations_stay_as_they_are_for_the_next_try() -> None:
    operations = [{"op": "add", "path": "/n", "value": {}}, {"op": "add", "path": "/n/m", "value": 1}]
    assert json_patch({}, operations) == json_patch({}, operations) == {"n": {"m": 1}}


@pytest.mark.parametrize(
    ("operations", "problem"),
    [
        ([1], "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        ([{"op": 1}], "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
        (
            [{"op": "add", "path": []}],
            "json: cannot unmarshal array into Go struct field jsonPatchOp.path of type string",
        ),
        ([None, {"op": "add"}], ""),
    ],
)
def test_operations_that_cannot_be_decoded(operations: Any, problem: str) -> None:
    assert malformed_operation(operations) == problem


def test_copies_may_add_as_much_as_a_body_has() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": f"/a/b{number}"} for number in range(40)]
    with pytest.raises(JSONPatchError, match="accumulated size increase"):
        json_patch({"a": {"t": "x" * 100_000}}, [{"op": "copy", "from": "/a", "path": f"/b{n}"} for n in range(32)])
    assert len(json.dumps(json_patch({"a": {"t": "x"}}, doubling[:10]))) < COPY_LIMIT
    with pytest.raises(JSONPatchError):
        json_patch({"a": {"t": "x"}}, doubling)


def test_a_patch_cannot_nest_deeper_than_a_body() -> None:
    def deeper(levels: int) -> list[Any]:
        return [{"op": "add", "path": "/a" * level, "value": {}} for level in range(1, levels)]

    json_patch({}, deeper(MAX_DEPTH))
    with pytest.raises(JSONPatchError, match="exceeded max depth"):
        json_patch({}, deeper(MAX_DEPTH + 1))
    with pytest.raises(JSONPatchError, match="exceeded max depth"):
        json_patch({}, deeper(1500))


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "add", "path": "/l/0", "value": 1}] * 10_000,
        [{"op": "test", "path": "/l", "value": []}] + [{"op": "move", "from": "/l/0", "path": "/l/-"}] * 9_999,
        [{"op": "copy", "from": "/l", "path": "/m"}] * 10_000,
        [{"op": "add", "path": "/" * 300, "value": 1}] * 10_000,
    ],
    ids=["insert", "move", "copy", "path"],
)
def test_ten_thousand_operations_on_a_large_list_take_less_than_two_seconds(operations: list[Any]) -> None:
    with costs_less_than(2.0), pytest.raises(JSONPatchError):
        json_patch({"l": [0] * 700_000}, operations)


VALUES = (
    "add",
    "remove",
    "replace",
    "move",
    "copy",
    "test",
    "/a",
    "/a/b",
    "/a/b/0",
    "/a/b/-",
    "",
    "/",
    None,
    [],
    {},
    1,
)
OPERATIONS = st.lists(
    st.dictionaries(st.sampled_from(("op", "path", "from", "value")), st.sampled_from(VALUES)), max_size=6
)


@given(OPERATIONS)
def test_any_patch_ends_in_a_document_or_a_refusal(operations: Any) -> None:
    with contextlib.suppress(JSONPatchError):
        assert isinstance(json_patch(DOCUMENT, operations), (dict, list))


ABSENT = "missing value"


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        ({"op": "add", "path": "/x/y"}, f'add operation does not apply: doc is missing path: "/x/y": {ABSENT}'),
        ({"op": "add", "path": ""}, f'add operation does not apply: doc is missing path: "": {ABSENT}'),
        ({"op": "add"}, f"add operation failed to decode path: {ABSENT}"),
        (
            {"op": "add", "path": "/a/b/x"},
            "error in add for path: '/a/b/x': value was not a proper array index: 'x': "
            'strconv.Atoi: parsing "x": invalid syntax',
        ),
        (
            {"op": "add", "path": "/a/b/9"},
            "error in add for path: '/a/b/9': Unable to access invalid index: 9: invalid index referenced",
        ),
        ({"op": "remove", "path": "/x/y"}, f'remove operation does not apply: doc is missing path: "/x/y": {ABSENT}'),
        (
            {"op": "remove", "path": "/x"},
            f"error in remove for path: '/x': Unable to remove nonexistent key: x: {ABSENT}",
        ),
        (
            {"op": "remove", "path": "/a/b/x"},
            "error in remove for path: '/a/b/x': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            {"op": "remove", "path": "/a/b/99999999999999999999"},
            "error in remove for path: '/a/b/99999999999999999999': "
            'strconv.Atoi: parsing "99999999999999999999": value out of range',
        ),
        ({"op": "replace", "path": "/x/y"}, f"replace operation does not apply: doc is missing path: /x/y: {ABSENT}"),
        (
            {"op": "replace", "path": "/a/b/3"},
            f"replace operation does not apply: doc is missing key: /a/b/3: {ABSENT}",
        ),
        (
            {"op": "replace", "value": 1},
            f"replace operation failed to decode path: operation missing path field: {ABSENT}",
        ),
        ({"op": "test", "path": "/x/y"}, f"test operation does not apply: is missing path: /x/y: {ABSENT}"),
        ({"op": "test", "path": "/d", "value": 1}, "testing value /d failed: test failed"),
        (
            {"op": "test", "path": "/a/b/7", "value": 1},
            "error in test for path: '/a/b/7': Unable to access invalid index: 7: invalid index referenced",
        ),
        (
            {"op": "move", "path": "/d"},
            f"move operation failed to decode from: operation, missing from field: {ABSENT}",
        ),
        (
            {"op": "move", "from": "/x/y", "path": "/d"},
            f"move operation does not apply: doc is missing from path: /x/y: {ABSENT}",
        ),
        (
            {"op": "move", "from": "/x", "path": "/d"},
            f"error in move for path: 'x': Unable to remove nonexistent key: x: {ABSENT}",
        ),
        (
            {"op": "move", "from": "/d", "path": "/x/y"},
            f"move operation does not apply: doc is missing destination path: /x/y: {ABSENT}",
        ),
        (
            {"op": "copy", "from": "/x/y", "path": "/d"},
            f"copy operation does not apply: doc is missing from path: /x/y: {ABSENT}",
        ),
        (
            {"op": "copy", "from": "/a/b/9", "path": "/d"},
            "error in copy for from: '/a/b/9': Unable to access invalid index: 9: invalid index referenced",
        ),
        (
            {"op": "copy", "from": "/d", "path": "/x/y"},
            f"copy operation does not apply: doc is missing destination path: /x/y: {ABSENT}",
        ),
        (
            {"op": "copy", "from": "/d", "path": "/a/b/x"},
            "error while adding value during copy: value was not a proper array index: 'x': "
            'strconv.Atoi: parsing "x": invalid syntax',
        ),
        ({"op": "put", "path": "/d"}, "Unexpected kind: put"),
        ({"path": "/d"}, "Unexpected kind: unknown"),
    ],
)
def test_a_failing_operation_is_told_in_the_words_of_the_library(operation: Any, text: str) -> None:
    with pytest.raises(JSONPatchError) as caught:
        json_patch(DOCUMENT, [operation])
    assert str(caught.value) == text
