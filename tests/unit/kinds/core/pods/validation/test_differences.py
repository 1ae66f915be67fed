"""What differs between two specs, as Kubernetes shows it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core import core_v1
from cathedra.api.goform import go_json
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.core.pods.validation.differences import spec_difference
from tests.unit.kinds.objects import pod


def spec(**values: object) -> core_v1.PodSpec:
    return pod(**values).spec


def changed(difference: str) -> list[str]:
    """The lines that are not context."""
    return [line for line in difference.split("\n") if line[:1] in ("+", "-")]


def test_equal_specs_differ_in_nothing() -> None:
    assert spec_difference(spec(nodeName="n"), spec(nodeName="n")) == ""


def test_a_difference_shows_three_lines_around_each_change_and_no_names_of_files() -> None:
    difference = spec_difference(spec(nodeName="a"), spec(nodeName="b"))
    head, *lines = difference.splitlines()
    assert head.startswith("@@ -")
    assert [line[0] for line in lines] == [" ", " ", " ", "-", "+", " ", " ", " "]
    assert changed(difference) == ['- "NodeName": "a",', '+ "NodeName": "b",']


def test_fields_carry_the_names_of_the_internal_form() -> None:
    difference = spec_difference(spec(dnsPolicy="Default"), spec(dnsPolicy="None", os={"name": "linux"}))
    assert [line[1:].split(":")[0].strip() for line in changed(difference)] == [
        '"DNSPolicy"',
        '"DNSPolicy"',
        '"OS"',
        '"OS"',
        '"Name"',
        "},",
    ]


def test_what_concerns_the_host_is_in_the_security_context() -> None:
    """Kubernetes keeps host namespaces in its internal security context, so a spec without one cannot show them."""
    with_context = spec(securityContext={"runAsUser": 1})
    difference = spec_difference(with_context, replace(with_context, host_network=True))
    assert changed(difference) == ['-  "HostNetwork": false,', '+  "HostNetwork": true,']
    bare = replace(with_context, security_context=None)
    assert spec_difference(bare, replace(bare, host_network=True)) == ""


def test_empty_lists_and_maps_are_null_and_amounts_are_texts() -> None:
    first = from_dict(core_v1.PodSpec, {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]})
    difference = spec_difference(first, replace(first, node_selector={"a": "b"}))
    assert changed(difference) == ['- "NodeSelector": null,', '+ "NodeSelector": {', '+  "a": "b"', "+ },"]
    other = from_dict(core_v1.PodSpec, {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]})
    assert changed(spec_difference(first, other)) == ['-     "cpu": "1"', '+     "cpu": "2"']


@given(st.text(max_size=8), st.text(max_size=8))
def test_the_lines_of_both_sides_are_the_values_of_both_sides(before: str, after: str) -> None:
    lines = changed(spec_difference(spec(hostname=before), spec(hostname=after)))
    if before == after:
        assert lines == []
        return
    assert lines == [
        f'- "Hostname": {go_json(before)},',
        f'+ "Hostname": {go_json(after)},',
    ]


def test_of_a_long_spec_the_lines_around_the_first_change_are_compared() -> None:
    """To compare all lines with all takes half a minute for 10,000 changed variables."""
    first, second = (
        spec(containers=[{"name": "c", "env": [{"name": f"n{number}", "value": value} for number in range(5000)]}])
        for value in ("a", "b")
    )
    difference = spec_difference(first, second)
    assert changed(difference)[:2] == ['-     "Value": "a",', '+     "Value": "b",']
    assert difference.endswith("… (cut)\n")
    assert len(difference.splitlines()) < 700


def test_lines_of_a_long_spec_keep_their_numbers() -> None:
    labels = {f"n{number:04}": "v" for number in range(2000)}
    first, second = spec(nodeSelector=labels, nodeName="a"), spec(nodeSelector=labels, nodeName="b")
    heading, *lines = spec_difference(first, second).splitlines()
    place = int(heading.split(",")[0].removeprefix("@@ -"))
    assert place > 2000
    assert changed("\n".join(lines)) == ['- "NodeName": "a",', '+ "NodeName": "b",']
