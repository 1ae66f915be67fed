"""Repeated fields of a patch are named, at any depth."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.decoding import read_yaml
from cathedra.apiserver.patches.duplicates import repeated_fields, repeated_keys, warnings_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def test_a_repeated_field_is_named_with_its_path() -> None:
    raw = b'{"metadata":{"labels":{"a":"b","a":"c"}},"spec":{"l":[{"n":1},{"n":1,"n":2}]},"spec":{}}'
    assert repeated_fields(raw) == (
        'duplicate field "metadata.labels.a"',
        'duplicate field "spec.l[1].n"',
        'duplicate field "spec"',
    )


@given(JSON)
def test_values_that_python_wrote_repeat_nothing(value: object) -> None:
    assert repeated_fields(json.dumps(value).encode()) == ()


def test_what_is_no_json_is_left_to_the_decoder() -> None:
    assert repeated_fields(b'{"a":') == ()


def test_keys_of_yaml_are_one_problem_and_one_warning_each() -> None:
    (problem,) = repeated_keys(read_yaml("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n"))
    lines = 'line 4: key "c" already set in map', 'line 5: key "a" already set in map'
    assert problem == "yaml: unmarshal errors:\n  " + "\n  ".join(lines)
    assert warnings_of(problem) == lines
    assert warnings_of('unknown field "a"') == ('unknown field "a"',)
    assert repeated_keys(read_yaml("a: 1")) == ()


def test_a_parsed_body_tells_the_same() -> None:
    for raw in (b'{"a": {"b": [{"c": 1}]}, "d" : "x"}', b'{"a": 1, "a": 2}', b'{"a": "look: \\"b\\":"}', b"[]"):
        assert repeated_fields(raw, json.loads(raw)) == repeated_fields(raw)


def test_a_hundred_repeated_fields_are_named_and_their_paths_are_cut() -> None:
    """Kubernetes names no more, and a path may have a key of a megabyte in it."""
    fields = ",".join(f'"n{number}":1' for number in range(5000))
    raw = f'{{"{"k" * 500_000}":{{{fields},{fields}}}}}'.encode()
    problems = repeated_fields(raw)
    assert len(problems) == 100
    assert max(map(len, problems)) < 5000
