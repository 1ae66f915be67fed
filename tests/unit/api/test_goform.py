"""Values as Kubernetes' messages show them."""

from __future__ import annotations

from cathedra.api import resource
from cathedra.api.core import core_v1
from cathedra.api.goform import go_form


def test_structs_show_every_field_in_upper_camel_case() -> None:
    claim = core_v1.PodResourceClaim(name="a")
    assert go_form(claim) == '{"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":null}'


def test_attributes_have_names_of_their_own() -> None:
    assert '"IntValue":1' in go_form(resource.DeviceAttribute(int_=1))
