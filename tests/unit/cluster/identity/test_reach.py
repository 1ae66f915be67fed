"""The listening address of an API server, and the address that it advertises."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.cluster.config import InvalidOption
from cathedra.cluster.identity.reach import Reach, own_address


def test_without_options_it_is_for_this_machine() -> None:
    assert (Reach().bind_address, Reach().advertised) == ("127.0.0.1", "127.0.0.1")
    assert Reach().certificate_names == ("127.0.0.1", "localhost")


def test_the_address_that_is_listened_on_is_told_unless_another_is_given() -> None:
    assert Reach(bind_address="192.0.2.7").advertised == "192.0.2.7"
    told = Reach(bind_address="0.0.0.0", advertise_address="192.0.2.8", names=("api.example.com",))
    assert told.advertised == "192.0.2.8"
    assert told.certificate_names == ("192.0.2.8", "localhost", "127.0.0.1", "api.example.com")


def test_for_everywhere_the_machines_own_address_is_told() -> None:
    assert Reach(bind_address="0.0.0.0").advertised == own_address()
    assert Reach(bind_address="::").advertised == own_address(6)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bind_address": "everywhere"}, "--bind-address must be an IP address, got 'everywhere'"),
        ({"advertise_address": "0.0.0.0"}, "--advertise-address must be an address to connect to"),
        ({"advertise_address": "192.0.2.8"}, "add --bind-address 192.0.2.8"),
        ({"names": ("no name",)}, "--tls-san 'no name' is neither"),
        ({"client_authority": Path("/nowhere")}, "--client-ca-file: there is no file /nowhere"),
    ],
)
def test_what_cannot_be_is_refused_with_its_option(options: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        Reach(**options)  # type: ignore[arg-type]
    assert text in str(refused.value)
