"""Masked texts name no machine, and equal ones stay equal."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from cathedra.profiles.masking import Masking

ONE = "3f2b8c1e-1111-4222-8333-444455556666"
TWO = "3f2b8c1e-1111-4222-8333-444455557777"


def test_uuids_become_numbered_placeholders_and_keep_what_stands_around_them() -> None:
    masking = Masking("n1")
    assert masking.text(f"GPU-{ONE}") == "GPU-{uuid:1}"
    assert masking.text(f"MIG-{TWO}") == "MIG-{uuid:2}"
    assert masking.text(ONE.upper()) == "{uuid:1}"


def test_pci_addresses_keep_device_and_function_and_which_share_a_bus() -> None:
    masking = Masking("n1")
    assert masking.text("0000:3b:00.0") == "0000:01:00.0"
    assert masking.text("0000:3b:00.1") == "0000:01:00.1"
    assert masking.text("0000:af:01.2") == "0000:02:01.2"
    assert masking.text("0000-3b-00-1-0x1060") == "0000-01-00-1-0x1060"
    assert masking.text("pci0000:3a") == "pci0000:01"


def test_serial_numbers_and_host_names_are_known_by_the_attribute() -> None:
    masking = Masking("n1")
    assert masking.attribute("serial", "AN21000123") == "{serial:1}"
    assert masking.attribute("boardSerialNumber", "other") == "{serial:2}"
    assert masking.attribute("serial", "AN21000123") == "{serial:1}"
    assert masking.attribute("hostname", "db7.corp.example.com") == "host-1"
    assert masking.attribute("hostname", "n1") == "{node}"
    assert masking.attribute("model", "AN21000123") == "AN21000123"


def test_names_of_nodes_are_masked_where_they_stand_alone() -> None:
    masking = Masking("gpu-7.corp.example.com", ["gpu-71.corp.example.com"])
    assert masking.text("gpu-7.corp.example.com") == "{node}"
    assert masking.text("gpu-71.corp.example.com/pool") == "node-1/pool"
    assert masking.text("pool-of-gpu-7.corp.example.com-x") == "pool-of-gpu-7.corp.example.com-x"


def test_network_addresses_are_replaced_by_those_of_documentation() -> None:
    masking = Masking("n1")
    assert masking.text("b8:ce:f6:01:02:03") == "02:00:00:00:00:01"
    assert masking.text("10.1.2.3:80 via 10.1.2.4") == "192.0.2.1:80 via 192.0.2.2"


def test_braces_are_no_placeholders() -> None:
    assert Masking("n1").text("{n}") == "{{n}}"


@given(st.lists(st.uuids(), min_size=1, max_size=6))
def test_equal_stays_equal_and_different_different(found: list[uuid.UUID]) -> None:
    masking = Masking("n1")
    made = [masking.text(str(one)) for one in found]
    assert [[a == b for b in made] for a in made] == [[a == b for b in found] for a in found]
    again = Masking("n1")
    assert made == [again.text(str(one)) for one in found]
