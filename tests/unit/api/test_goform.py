"""Values as Kubernetes' messages show them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api import resource
from cathedra.api.core import core_v1
from cathedra.api.goform import go_form, go_json


def test_structs_show_every_field_in_upper_camel_case() -> None:
    claim = core_v1.PodResourceClaim(name="a")
    assert go_form(claim) == '{"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":null}'


def test_attributes_have_names_of_their_own() -> None:
    assert '"IntValue":1' in go_form(resource.DeviceAttribute(int_=1))


def test_texts_are_fit_for_html_as_go_writes_them() -> None:
    assert go_json("a<b && c>d") == r'"a\u003cb \u0026\u0026 c\u003ed"'
    assert go_json(["\u2028", "\u2029", "é"]) == r'["\u2028","\u2029","é"]'


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_values_are_read_back_as_they_were(value: object) -> None:
    assert json.loads(go_json(value)) == value
    assert json.loads(go_json(value, indent=1)) == value
