"""Manifests in other versions: what changes, and that nothing else does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cathedra.allocation import InvalidInput
from cathedra.api.decoding import decode_values
from cathedra.api.scheme import GroupVersionKind
from cathedra.insight import convert
from cathedra.insight.conversion.convert import in_version
from cathedra.insight.reading.dumps import definition_of

OLD = """\
# what a team wants
apiVersion: resource.k8s.io/v1beta1   # old
kind: ResourceClaimTemplate
metadata: {name: gpus}
spec:
  spec:
    devices:
      requests:
      # the big one
      - name: gpu # in front
        # of this class
        deviceClassName: gpu.example.com
        selectors:
        - cel:
            expression: |
              # no comment
              device.driver == "x"

        count: 2   # two
        # tolerations: []
      - name: any
        firstAvailable:
        - name: first
          deviceClassName: a

    # the end
---
kind:   Pod
apiVersion: v1
metadata: { name:   'untouched' }
"""
NEW = """\
# what a team wants
apiVersion: resource.k8s.io/v1   # old
kind: ResourceClaimTemplate
metadata: {name: gpus}
spec:
  spec:
    devices:
      requests:
      # the big one
      - name: gpu # in front
        exactly:
          # of this class
          deviceClassName: gpu.example.com
          selectors:
          - cel:
              expression: |
                # no comment
                device.driver == "x"

          count: 2   # two
          # tolerations: []
      - name: any
        firstAvailable:
        - name: first
          deviceClassName: a

    # the end
---
kind:   Pod
apiVersion: v1
metadata: { name:   'untouched' }
"""


def text_of(text: str, to: str) -> str:
    return convert(text, to).files[0].text


def test_requests_move_below_exactly_with_their_comments() -> None:
    assert text_of(OLD, "v1") == NEW


def test_and_back_again() -> None:
    assert text_of(NEW, "v1beta1") == OLD


def test_v1beta2_has_the_form_of_v1() -> None:
    assert text_of(NEW, "v1beta2") == NEW.replace("k8s.io/v1 ", "k8s.io/v1beta2 ")
    assert text_of(OLD, "v1beta2") == NEW.replace("k8s.io/v1 ", "k8s.io/v1beta2 ")


def test_what_has_the_version_stays_byte_for_byte() -> None:
    odd = "\ufeff" + NEW.replace("\n", "\r\n") + "\r\n\r\n# end"
    (file,) = convert(odd, "v1").files
    assert (file.text, file.changes) == (odd, ())


def test_windows_line_ends_and_a_missing_last_one_are_kept() -> None:
    odd = OLD.partition("---")[0].replace("    # the end\n", "").rstrip().replace("\n", "\r\n")
    made = text_of(odd, "v1")
    assert "\n" not in made.replace("\r\n", "")
    assert not made.endswith("\n")
    assert text_of(made, "v1beta1") == odd


@pytest.mark.parametrize(
    ("flat", "nested"),
    [
        ("{name: a, deviceClassName: b, count: 2}", "{name: a, exactly: {deviceClassName: b, count: 2}}"),
        ('{"name": "a", "count": 2}', '{"name": "a", "exactly": {"count": 2}}'),
        ("{deviceClassName: b, name: a}", "{exactly: {deviceClassName: b}, name: a}"),
        ("{name: a, firstAvailable: [{name: b}]}", "{name: a, firstAvailable: [{name: b}]}"),
    ],
)
def test_requests_in_braces_stay_in_braces(flat: str, nested: str) -> None:
    head = "apiVersion: resource.k8s.io/{}\nkind: ResourceClaim\nspec: {{devices: {{requests: [{}]}}}}\n"
    assert text_of(head.format("v1beta1", flat), "v1") == head.format("v1", nested)
    assert text_of(head.format("v1", nested), "v1beta1") == head.format("v1beta1", flat)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (
            "  - deviceClassName: b\n    name: a\n    count: 1\n",
            "  - exactly:\n      deviceClassName: b\n      count: 1\n    name: a\n",
        ),
        ("  - count: 1\n    name: a\n", "  - exactly:\n      count: 1\n    name: a\n"),
        ("    - name: a\n      count: 1", "    - name: a\n      exactly:\n        count: 1"),
        ("  -\n    name: a\n    count: 1\n", "  -\n    name: a\n    exactly:\n      count: 1\n"),
    ],
)
def test_requests_are_found_however_they_stand(request_: str, expected: str) -> None:
    head = "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nspec:\n devices:\n  requests:\n"
    assert text_of(head + request_, "v1") == head.replace("v1beta1", "v1") + expected


def test_an_exactly_in_braces_becomes_lines() -> None:
    text = NEW.partition("---")[0]
    begin, end = text.index("        exactly:"), text.index("      - name: any")
    text = f"{text[:begin]}        exactly: {{deviceClassName: b, count: 2}} # so\n{text[end:]}"
    assert "        deviceClassName: b\n        count: 2\n        # so\n" in text_of(text, "v1beta1")


def test_devices_of_slices_are_wrapped_in_basic() -> None:
    text = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: d
  devices:
  - name: bare
  - name: gpu-0
    attributes: # some
      model: {string: a}
    capacity:
      memory: {value: 40Gi}
"""
    made = text_of(text, "v1beta1")
    assert "  - name: bare\n    basic: {}\n  - name: gpu-0\n    basic:\n      attributes: # some\n" in made
    assert yaml.safe_load(text_of(made, "v1")) == yaml.safe_load(text)


def test_capacities_of_v1alpha3_become_values() -> None:
    text = (
        "apiVersion: resource.k8s.io/v1alpha3\nkind: ResourceSlice\nspec:\n  devices:\n"
        "  - name: a\n    basic:\n      capacity:\n        memory: 40Gi # much\n"
    )
    assert "    capacity:\n      memory: {value: 40Gi} # much\n" in text_of(text, "v1")
    assert "      capacity:\n        memory: {value: 40Gi} # much\n" in text_of(text, "v1beta1")


def test_lists_and_their_objects_are_converted() -> None:
    inside = OLD.partition("---")[0].replace("\n", "\n  ").rstrip()
    first = inside.removeprefix("# what a team wants").lstrip()
    text = f"apiVersion: v1\nkind: List\nitems:\n- {first}\n- kind: Pod\n  apiVersion: v1\n"
    assert "exactly:" in text_of(text, "v1")
    items = "items:\n- spec: {devices: {requests: [{name: a, count: 1}]}}\n"
    typed = f"apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaimList\n{items}"
    assert text_of(typed, "v1") == typed.replace("v1beta1", "v1").replace("count: 1", "exactly: {count: 1}")


def test_json_keeps_its_order_and_indentation() -> None:
    value = {
        "kind": "ResourceClaim",
        "apiVersion": "resource.k8s.io/v1beta1",
        "spec": {"devices": {"requests": [{"name": "a", "count": 1}]}},
    }
    for layout in ({"indent": 4}, {"separators": (",", ":")}, {}):
        text = json.dumps(value, **layout) + "\n"  # type: ignore[arg-type]
        made = text_of(text, "v1")
        assert made == json.dumps(json.loads(made), **layout) + "\n"  # type: ignore[arg-type]
        assert text_of(made, "v1beta1") == text


@pytest.mark.parametrize(
    ("text", "version", "note"),
    [
        (
            "apiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: {name: broken}\nspec: {}\n",
            "v1beta1",
            "DeviceTaintRule/broken stays in v1: DeviceTaintRule has no version v1beta1",
        ),
        (
            "apiVersion: resource.k8s.io/v1alpha2\nkind: ResourceClaim\nmetadata: {name: a}\n"
            "spec: {resourceClassName: b}\n",
            "v1",
            "ResourceClaim/a stays in v1alpha2: from there no conversion leads to v1",
        ),
    ],
    ids=["its kind does not have the version", "its version is of the first generation"],
)
def test_an_object_that_cannot_be_converted_stays_and_is_named(text: str, version: str, note: str) -> None:
    (file,) = convert(text, version).files
    assert (file.text, file.changes) == (text, ())
    assert file.notes == (note,)


def test_fields_that_the_version_does_not_have_stay_and_are_named() -> None:
    text = "apiVersion: resource.k8s.io/v1alpha3\nkind: ResourceClaim\nmetadata: {name: a}\nspec: {controller: c}\n"
    (file,) = convert(text).files
    assert file.text == text.replace("v1alpha3", "v1")
    assert file.notes == ('ResourceClaim/a: unknown field "spec.controller" in v1',)


def test_anchors_are_changed_where_they_stand() -> None:
    text = """\
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
spec:
  devices:
    requests:
    - &one
      name: a
      count: 1
    - name: b
      selectors: &s [{cel: {expression: 'true'}}]
    - name: c
      selectors: *s
      count: 1
"""
    made = yaml.safe_load(text_of(text, "v1"))
    assert made["spec"]["devices"]["requests"][2]["exactly"] == {
        "selectors": [{"cel": {"expression": "true"}}],
        "count": 1,
    }


@pytest.mark.parametrize(
    "request_",
    ["    - <<: {name: a}\n      count: 1\n", "    - name: a\n      <<: {count: 1}\n"],
)
def test_merge_keys_are_refused_with_the_reason(request_: str) -> None:
    head = "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nspec:\n  devices:\n    requests:\n"
    with pytest.raises(InvalidInput, match=r"text: it cannot be converted as it is written: a merge key"):
        convert(head + request_)


def test_what_is_no_yaml_and_no_version_is_an_error_of_input(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="text"):
        convert("a: [")
    with pytest.raises(InvalidInput, match="no version 'v2'"):
        convert("", "v2")
    with pytest.raises(InvalidInput, match="no such file"):
        convert(tmp_path / "no")


# --- round trips

NAMES = st.text("abcdefghij-", min_size=1, max_size=8)
TEXTS = st.one_of(
    NAMES, st.sampled_from(["true", "1", "no", "# x", "a: b", "é\nü", "- x", "", " lead", "multi\n\n line\n"])
)
SELECTORS = st.lists(st.fixed_dictionaries({"cel": st.fixed_dictionaries({"expression": TEXTS})}), max_size=2)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "selectors": SELECTORS,
    "count": st.integers(1, 5),
    "adminAccess": st.booleans(),
    "tolerations": st.lists(st.fixed_dictionaries({"key": NAMES, "operator": st.just("Exists")}), max_size=1),
}
ALTERNATIVE = st.fixed_dictionaries(
    {"deviceClassName": NAMES}, optional={"count": st.integers(1, 5), "selectors": SELECTORS}
)
BODY = st.fixed_dictionaries({"deviceClassName": NAMES}, optional=FIELDS)
REQUESTS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"name": NAMES, "exactly": BODY}),
        st.fixed_dictionaries({"exactly": BODY, "name": NAMES}),
        st.fixed_dictionaries({"name": NAMES, "firstAvailable": st.lists(ALTERNATIVE, min_size=1, max_size=2)}),
    ),
    max_size=3,
)
DEVICES = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES},
        optional={
            "attributes": st.dictionaries(NAMES, st.fixed_dictionaries({"string": TEXTS}), max_size=2),
            "capacity": st.dictionaries(NAMES, st.fixed_dictionaries({"value": st.just("1Gi")}), max_size=2),
            "allNodes": st.just(True),
        },
    ),
    max_size=3,
)


def object_of(kind: str, inner: Any) -> dict[str, Any]:
    devices: Any = {"devices": inner if kind == "ResourceSlice" else {"requests": inner}}
    spec = {"spec": devices} if kind == "ResourceClaimTemplate" else devices
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}


OBJECTS = st.one_of(
    st.builds(object_of, st.sampled_from(["ResourceClaim", "ResourceClaimTemplate"]), REQUESTS),
    st.builds(object_of, st.just("ResourceSlice"), DEVICES),
)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    values=st.lists(OBJECTS, min_size=1, max_size=2),
    flow=st.sampled_from([None, False, True]),
    indent=st.integers(2, 4),
)
def test_there_and_back_again_is_the_identity(values: list[dict[str, Any]], flow: bool | None, indent: int) -> None:
    text: str = yaml.safe_dump_all(values, sort_keys=False, default_flow_style=flow, indent=indent, allow_unicode=True)
    old = text_of(text, "v1beta1")
    assert list(yaml.safe_load_all(old)) == [in_version(one, one["kind"], "v1", "v1beta1") for one in values]
    assert list(yaml.safe_load_all(text_of(old, "v1"))) == values
    assert text_of(text_of(text, "v1beta2"), "v1") == text


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(value=OBJECTS)
def test_the_server_reads_the_same_object_in_both_versions(value: dict[str, Any]) -> None:
    """The server's own conversion is the judge (cathedra.kinds)."""
    definition = definition_of("resource.k8s.io", value["kind"])
    assert definition is not None
    seen = []
    for version in ("v1", "v1beta2", "v1beta1"):
        made = in_version(value, value["kind"], "v1", version)
        served = definition.version(version)
        gvk = GroupVersionKind("resource.k8s.io", version, value["kind"])
        decoded = decode_values(served.type, gvk, made)
        assert decoded.problems == ()
        seen.append(served.to_hub(decoded.object))
    assert seen[0] == seen[1] == seen[2]


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    at=st.integers(0, len(OLD)),
    gone=st.integers(0, 30),
    new=st.sampled_from(["\n", "{", "- ", "'", "*a", "&a ", "# ", "  "]),
)
def test_a_broken_manifest_is_an_error_of_input_or_converted_rightly(at: int, gone: int, new: str) -> None:
    text = OLD[:at] + new + OLD[at + gone :]
    try:
        made = text_of(text, "v1")
    except InvalidInput:
        return
    assert text_of(made, "v1") == made


@pytest.mark.parametrize(
    "path",
    sorted((Path(__file__).parents[4] / "examples").glob("*/*.yaml")),
    ids=lambda one: f"{one.parent.name}/{one.name}",
)
def test_the_examples_come_back_as_they_were(path: Path) -> None:
    text = path.read_text()
    if "resource.k8s.io/v1alpha3" in text:
        return  # no conversion leads back there
    there, back = ("v1", "v1beta1") if "resource.k8s.io/v1beta1" in text else ("v1beta1", "v1")
    made = text_of(text, there)
    assert list(yaml.safe_load_all(text_of(made, back))) == list(yaml.safe_load_all(text))
    assert [line for line in made.splitlines() if "#" in line] == [
        line for line in text.splitlines() if "#" in line
    ] or made.count("#") == text.count("#")
