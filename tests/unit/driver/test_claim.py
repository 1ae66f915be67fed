"""A claim as its driver sees it."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest

from cathedra.api import resource
from cathedra.api.core import meta_v1
from cathedra.cdi.spec import DeviceNode, Mount, NetDevice
from cathedra.driver import Claim
from cathedra.driver.claim import Edits, decode_parameters
from cathedra.driver.errors import ConfigError
from tests.unit.driver.world import DRIVER, opaque, result


@dataclass
class Shade:
    hue: str = "warm"


@dataclass
class LampConfig:
    colour: str = "white"
    level: int = 100
    shade: Shade = field(default_factory=Shade)


MODELS = {("lamp.example.com/v1", "LampConfig"): LampConfig}


def config(requests: tuple[str, ...] = (), source: str = "FromClaim", **values: object) -> object:
    return opaque(
        {"apiVersion": "lamp.example.com/v1", "kind": "LampConfig", **values}, requests=requests, source=source
    )


def view(*configs: object, request: str = "lamp", models: object = MODELS) -> Claim:
    allocation = resource.AllocationResult(
        devices=resource.DeviceAllocationResult(results=(result("lamp-0", request=request),), config=tuple(configs))  # type: ignore[arg-type]
    )
    raw = resource.ResourceClaim(
        metadata=meta_v1.ObjectMeta(name="c", namespace="default", uid="u"),
        status=resource.ResourceClaimStatus(allocation=allocation),
    )
    return Claim.of(raw, DRIVER, models)  # type: ignore[arg-type]


def colour(claim: Claim) -> str:
    return claim.allocations[0].config(LampConfig).colour


def test_later_entries_win_as_a_whole() -> None:
    claim = view(config(colour="red", level=5, source="FromClass"), config(colour="blue"))
    assert claim.allocations[0].config(LampConfig) == LampConfig(colour="blue", level=100)
    assert [p["colour"] for p in claim.allocations[0].parameters] == ["red", "blue"]


def test_without_parameters_the_default_holds() -> None:
    assert colour(view()) == "white"
    assert view().allocations[0].config(LampConfig, LampConfig("green")).colour == "green"


@pytest.mark.parametrize(
    ("requests", "applies"),
    [((), True), (("lamp",), True), (("lamp/bright",), True), (("lamp/dim",), False), (("other",), False)],
)
def test_entries_apply_to_their_requests_and_subrequests(requests: tuple[str, ...], applies: bool) -> None:
    claim = view(config(requests, colour="red"), request="lamp/bright")
    assert colour(claim) == ("red" if applies else "white")
    assert claim.allocations[0].base_request == "lamp"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"color": "red"}, r'config\[0\]\.opaque\.parameters: unknown field "color"; LampConfig has colour, level'),
        ({"shade": {"hew": "x"}}, 'unknown field "hew"'),
        ({"level": "much"}, "Expected `int`, got `str`"),
    ],
)
def test_mistakes_in_parameters_are_told_with_their_place(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        view(config(**values))


def test_unknown_kinds_and_entries_from_the_future_are_errors() -> None:
    with pytest.raises(
        ConfigError, match=r'no kind "Other" is known in "x/v1"; this driver takes lamp\.example\.com/v1'
    ):
        view(opaque({"apiVersion": "x/v1", "kind": "Other"}))
    with pytest.raises(ConfigError, match="needs a newer version of the driver"):
        view(resource.DeviceAllocationConfiguration(source="FromClaim"))


def test_without_models_parameters_stay_as_they_are() -> None:
    (allocation,) = view(opaque({"a": "b"}), models={}).allocations
    assert (allocation.parameters, allocation.configs) == (({"a": "b"},), ())


def test_claim_without_allocation_has_no_devices() -> None:
    assert Claim.of(resource.ResourceClaim(), DRIVER).allocations == ()


def test_edits_become_those_of_a_document() -> None:
    mount = Mount(host_path="/a", container_path="/b")
    made = Edits(
        env={"A": "1"},
        device_nodes=["/dev/x", DeviceNode(path="/dev/y", permissions="r")],
        mounts=[mount],
        additional_gids=[44],
        net_devices={"eth1": "net1"},
    ).to_cdi()
    assert made.env == ("A=1",)
    assert made.device_nodes == (DeviceNode(path="/dev/x"), DeviceNode(path="/dev/y", permissions="r"))
    assert (made.mounts, made.additional_gids) == ((mount,), (44,))
    assert made.net_devices == (NetDevice(host_interface_name="eth1", name="net1"),)


def test_no_edits_are_none() -> None:
    assert Edits().to_cdi() == type(Edits().to_cdi())()


@dataclass
class Lampshade:
    hue: str = "warm"


@dataclass
class LampSettings:
    level: int = 100
    shade: Lampshade = field(default_factory=Lampshade)


class Loose(msgspec.Struct):
    """A struct decides if unknown fields are refused; this one accepts them."""

    level: int = 0


SETTINGS = {("lamp/v1", "LampConfig"): LampSettings, ("lamp/v1", "Loose"): Loose}


def decoded(kind: str = "LampConfig", version: str = "lamp/v1", **fields: object) -> object:
    return decode_parameters({"apiVersion": version, "kind": kind, **fields}, SETTINGS, "here")


def test_parameters_become_the_model_of_their_kind() -> None:
    assert decoded(level=3, shade={"hue": "cold"}) == LampSettings(3, Lampshade("cold"))
    assert decoded("Loose", level=3, more=True) == Loose(3)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "Other"}, 'here: no kind "Other" is known in "lamp/v1"; this driver takes lamp/v1 LampConfig'),
        ({"version": "lamp/v2"}, 'here: no kind "LampConfig" is known in "lamp/v2"'),
        ({"levl": 1}, 'here: unknown field "levl"; LampSettings has level, shade'),
        ({"shade": {"hew": 1}}, 'here.shade: unknown field "hew"; Lampshade has hue'),
        ({"level": "high"}, "here: Expected `int`, got `str` - at `$.level`"),
    ],
    ids=["kind", "version", "field", "inner field", "type"],
)
def test_what_the_model_does_not_take_is_refused_with_its_place(given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        decoded(**given)  # type: ignore[arg-type]
    assert str(refusal.value).startswith(said)


def test_null_leaves_a_field_as_it_is() -> None:
    assert decoded(level=None, shade={"hue": None}) == LampSettings()
    assert decoded("Loose", level=None) == Loose()
