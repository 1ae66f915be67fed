"""YAML with positions: nodes have their line and column, in every style."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cathedra.api.decoding import read_yaml_documents
from cathedra.insight.manifests import BrokenYAML, ManifestFile, TextPositions, YAMLNode, find_node, read_trees

TEXTS = st.one_of(
    st.text("abé {}[]:#'\"\\-\n&*", max_size=20),
    st.sampled_from(["", "yes", "1", "a\n\nb\n", "x: y", "- z", "long " * 40]),
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(-5, 5), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)


def roots(text: str) -> list[YAMLNode]:
    return [one for one in read_trees(text) if one is not None]


def leaves(node: YAMLNode, value: Any) -> list[tuple[YAMLNode, Any]]:
    """Scalars with the values that Kubernetes' reader has for them."""
    if node.kind == "mapping":
        pairs = zip(node.entries, value.values(), strict=True)
        return [leaf for (_, inner), item in pairs for leaf in leaves(inner, item)]
    if node.kind == "sequence":
        return [leaf for inner, item in zip(node.items, value, strict=True) for leaf in leaves(inner, item)]
    return [(node, value)]


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(value=VALUES, flow=st.sampled_from([None, True, False]), width=st.integers(10, 100))
def test_nodes_and_values_are_of_the_same_shape_and_texts_stand_where_they_say(
    value: Any, flow: bool | None, width: int
) -> None:
    text: str = yaml.safe_dump(value, default_flow_style=flow, width=width, allow_unicode=True, sort_keys=False)
    file = ManifestFile("x", text)
    (root,) = roots(text)
    for node, item in leaves(root, next(read_yaml_documents(text)).value):
        if not isinstance(item, str):
            continue
        assert node.text == item
        places = TextPositions(file, node)
        for offset, letter in enumerate(item):
            line, column = places.place(offset)
            if not letter.isspace() and "\\" not in file.text[node.start : node.end]:
                assert file.line(line)[column - 1] == letter


@pytest.mark.parametrize(
    ("text", "path", "found"),
    [
        ("a: {b: [1, {c: 2}]}", "a.b[1].c", "2"),
        ("a:\n- b: x\n- b: y\n", "a[1].b", "y"),
        ("a:\n  x.y/z: 1\n", "a[x.y/z]", "1"),
        ("a: &n\n  b: 3\nc: *n\n", "c.b", "3"),
        ("a: !!str 7\n", "a", "7"),
        ("a: &x !!str 8\n", "a", "8"),
        ("spec:\n  requests:\n  - count: 9\n", "spec.requests[0].exactly.count", "9"),
        ("devices:\n- basic: {capacity: 5}\n", "devices[0].capacity", "5"),
        ("a: 1\na: 2\n", "a", "2"),
    ],
)
def test_a_path_leads_to_its_node(text: str, path: str, found: str) -> None:
    node, _, exact = find_node(roots(text)[0], path)
    assert (exact, text[node.start : node.end]) == (True, found)


def test_a_path_that_leads_nowhere_ends_at_the_nearest_field() -> None:
    text = "spec:\n  devices: {}\n"
    node, key, exact = find_node(roots(text)[0], "spec.devices.requests[0].name")
    assert key is not None
    assert (text[node.start : node.end], key.text, exact) == ("{}", "devices", False)


def test_documents_without_content_are_told() -> None:
    assert [root is None or root.text for root in read_trees("---\na\n---\n---\nb\n")] == ["a", "", "b"]


@pytest.mark.parametrize("text", ["a: [", "a: *b", "\ta: 1", "a: 'x", "%YAML 3.0\n---\n", "a: 1\n b: 2"])
def test_what_is_no_yaml_has_a_place(text: str) -> None:
    with pytest.raises(BrokenYAML) as told:
        roots(text)
    assert told.value.line >= 1


def test_a_line_beyond_the_last_is_empty() -> None:
    file = ManifestFile("x", "a\r\nb")
    assert [file.line(number) for number in (0, 1, 2, 3)] == ["", "a", "b", ""]
    assert [file.place(index) for index in (0, 3, 4, 99)] == [(1, 1), (2, 1), (2, 2), (2, 97)]
