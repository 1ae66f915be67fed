"""Values as Kubernetes' messages show them."""

from __future__ import annotations

import pytest

from cathedra.api import resource
from cathedra.api.core import core_v1
from cathedra.api.goform import go_form, go_quote


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a", '"a"'),
        ('"\\', '"\\"\\\\"'),
        ("\n\t\r", '"\\n\\t\\r"'),
        ("\x00\x7f", '"\\x00\\x7f"'),
        ("é ☃", '"é ☃"'),
        ("\u200b", '"\\u200b"'),
        ("\U000e0001", '"\\U000e0001"'),
    ],
)
def test_texts_are_quoted_as_go_does(text: str, shown: str) -> None:
    assert go_quote(text) == shown


def test_structs_show_every_field_in_upper_camel_case() -> None:
    claim = core_v1.PodResourceClaim(name="a")
    assert go_form(claim) == '{"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":null}'


def test_attributes_have_names_of_their_own() -> None:
    assert '"IntValue":1' in go_form(resource.DeviceAttribute(int_=1))
