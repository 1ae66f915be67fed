"""Fields that a patch says twice are named, wherever they stand."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from cathedra.apiserver.patches.duplicates import repeated_fields, repeated_yaml_keys

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


def test_what_is_no_json_is_somebody_elses_business() -> None:
    assert repeated_fields(b'{"a":') == ()
    assert repeated_yaml_keys(b"a: [") == ""


def test_yaml_names_the_line() -> None:
    assert repeated_yaml_keys(b"a: 1\nb:\n  c: 1\n  c: 2\n") == (
        'error converting YAML to JSON: yaml: unmarshal errors:\n  line 4: key "c" already set in map'
    )


def test_a_parsed_body_tells_the_same() -> None:
    for raw in (b'{"a": {"b": [{"c": 1}]}, "d" : "x"}', b'{"a": 1, "a": 2}', b'{"a": "look: \\"b\\":"}', b"[]"):
        assert repeated_fields(raw, json.loads(raw)) == repeated_fields(raw)
