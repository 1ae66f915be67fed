"""Opaque parameters as objects of a driver's models."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest

from cathedra.driver.errors import ConfigError
from cathedra.driver.parameters import decode_parameters


@dataclass
class Shade:
    hue: str = "warm"


@dataclass
class LampConfig:
    level: int = 100
    shade: Shade = field(default_factory=Shade)


class Loose(msgspec.Struct):
    """A struct says itself whether unknown fields are refused; this one does not refuse them."""

    level: int = 0


MODELS = {("lamp/v1", "LampConfig"): LampConfig, ("lamp/v1", "Loose"): Loose}


def decoded(kind: str = "LampConfig", version: str = "lamp/v1", **fields: object) -> object:
    return decode_parameters({"apiVersion": version, "kind": kind, **fields}, MODELS, "here")


def test_parameters_become_the_model_of_their_kind() -> None:
    assert decoded(level=3, shade={"hue": "cold"}) == LampConfig(3, Shade("cold"))
    assert decoded("Loose", level=3, more=True) == Loose(3)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "Other"}, 'here: no kind "Other" is known in "lamp/v1"; this driver takes lamp/v1 LampConfig'),
        ({"version": "lamp/v2"}, 'here: no kind "LampConfig" is known in "lamp/v2"'),
        ({"levl": 1}, 'here: unknown field "levl"; LampConfig has level, shade'),
        ({"shade": {"hew": 1}}, 'here.shade: unknown field "hew"; Shade has hue'),
        ({"level": "high"}, "here: Expected `int`, got `str` - at `$.level`"),
    ],
    ids=["kind", "version", "field", "inner field", "type"],
)
def test_what_the_model_does_not_take_is_refused_with_its_place(given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        decoded(**given)  # type: ignore[arg-type]
    assert str(refusal.value).startswith(said)


def test_null_leaves_a_field_as_it_is() -> None:
    assert decoded(level=None, shade={"hue": None}) == LampConfig()
    assert decoded("Loose", level=None) == Loose()
