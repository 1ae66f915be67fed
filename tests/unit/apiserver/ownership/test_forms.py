"""What is known of a configuration's form holds for every configuration of that form."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.goform import go_values
from cathedra.api.struct import encode, from_dict, to_dict
from cathedra.apiserver.ownership.comparison import Comparison, Outline, outline
from cathedra.apiserver.ownership.forms import Forms
from cathedra.apiserver.ownership.resets import field_set as paths
from cathedra.apiserver.ownership.typed import check, field_set, merge
from cathedra.apiserver.ownership.views import doubtful_fields
from cathedra.apiserver.patches.schema import struct_shape, without_nulls

SHAPE = struct_shape(Pod)
IGNORED = paths(("spec.nodeName", "metadata.labels"))
TEXT = st.sampled_from(["", "x", "y"])
NAMES = st.sampled_from(["a", "b"])
CONDITION = st.fixed_dictionaries({"type": NAMES}, optional={"status": TEXT, "reason": TEXT})
CLAIM = st.fixed_dictionaries({"name": NAMES}, optional={"resourceClaimName": TEXT})
LABELS = st.sampled_from([{"a": "b"}, {"b": "", "a": ""}])
CONFIGURATIONS = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": TEXT}, optional={"uid": TEXT, "labels": LABELS})},
    optional={
        "spec": st.fixed_dictionaries({}, optional={"nodeName": TEXT, "overhead": st.just({}), "wrong": TEXT}),
        "status": st.fixed_dictionaries(
            {},
            optional={
                "phase": st.one_of(TEXT, st.none(), st.just(3)),
                "conditions": st.lists(CONDITION, max_size=2),
                "resourceClaimStatuses": st.lists(CLAIM, max_size=2),
            },
        ),
    },
)


@settings(max_examples=200)
@given(st.lists(CONFIGURATIONS, min_size=1, max_size=6), CONFIGURATIONS)
def test_a_form_says_of_a_configuration_what_its_shape_does(
    configurations: list[dict[str, Any]], live: dict[str, Any]
) -> None:
    forms = Forms()
    for configuration in configurations:
        found = forms.find("ann", configuration, SHAPE, IGNORED)
        if found is None:
            continue
        form, fields, doubts = found
        assert not check(configuration, SHAPE)
        assert fields == field_set(configuration, SHAPE).without_subtrees(IGNORED)
        reset = {key[2:] for key, inner in IGNORED.children.items() if inner.member}
        assert set(doubts) == doubtful_fields(SHAPE).keys() - configuration.keys() - reset
        if check(live, SHAPE):
            continue  # nothing that is stored looks so
        pod = from_dict(Pod, go_values(without_nulls(live, SHAPE)))
        before = to_dict(pod)
        wanted = merge(before, configuration, SHAPE)
        made = form.applied(pod, configuration)
        read = from_dict(Pod, go_values(without_nulls(wanted, SHAPE)))
        if made is None:
            assert list(live["metadata"]["labels"]) == ["b", "a"]
            continue
        assert encode(made[0]) == encode(read)
        assert _named(made[1]) == _named(outline(before, wanted, SHAPE))


def _named(outlined: Outline | None) -> tuple[Any, ...]:
    compared = Comparison.of(outlined)
    return compared.added, compared.modified, compared.removed


def test_texts_are_no_part_of_a_form_and_keys_of_a_list_are() -> None:
    forms = Forms()

    def found(**claim: str) -> Any:
        return forms.find("ann", {"status": {"resourceClaimStatuses": [claim]}}, SHAPE, IGNORED)

    first = found(name="gpu", resourceClaimName="p-gpu-1")
    assert found(name="gpu", resourceClaimName="p-gpu-2") is first
    other = found(name="net", resourceClaimName="p-net-1")
    assert other[1] != first[1]
    assert found(name="gpu", resourceClaimName="p-gpu-3") is first
    assert found(name="gpu")[1] != first[1]


def test_what_has_other_values_than_texts_or_does_not_fit_has_no_form() -> None:
    forms = Forms()
    for status in ({"phase": None}, {"conditions": []}, {"phase": 1}, {"other": "x"}, {"conditions": [{"status": ""}]}):
        assert forms.find("ann", {"status": status}, SHAPE, IGNORED) is None
    repeated = [{"type": "Ready"}, {"type": "Ready"}]
    assert forms.find("ann", {"status": {"conditions": repeated}}, SHAPE, IGNORED) is None
