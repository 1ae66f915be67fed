"""Addresses and networks (docs/spec/cel.md §6.5)."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.cel.library import network
from tests.unit.cel.asking import shown


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("ip('10.0.0.1').family()", "4"),
        ("string(ip('2001:DB8::1'))", "2001:db8::1"),
        ("ip.isCanonical('2001:DB8::1')", "false"),
        ("isIP('::ffff:1.2.3.4')", "false"),
        ("ip('fe80::1%eth0')", 'error: IP address "fe80::1%eth0" with zone value is not allowed'),
        ("ip('224.0.0.1').isLinkLocalMulticast()", "true"),
        ("ip('10.0.0.1').isGlobalUnicast()", "true"),
        ("cidr('10.0.0.5/8').masked() == cidr('10.0.0.0/8')", "true"),
        ("cidr('10.0.0.0/8').containsIP('10.1.2.3')", "true"),
        ("cidr('10.0.0.0/8').containsCIDR(cidr('10.0.0.0/7'))", "false"),
        ("cidr('::/0').prefixLength()", "0"),
        ("isCIDR('10.0.0.0/33')", "false"),
        (
            "cidr('10.0.0.0/08')",
            "error: network address parse error during conversion from string: "
            "network address parse error during conversion from string: "
            'netip.ParsePrefix("10.0.0.0/08"): bad bits after slash: "08"',
        ),
    ],
)
def test_networks_answer_as_in_kubernetes(expression: str, result: str) -> None:
    assert shown(expression) == result


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "unable to parse IP"),
        ("10", "unable to parse IP"),
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("1.2.3.256", "IPv4 field has value >255"),
        ("1.2.3.04", "IPv4 field has octet with leading zero"),
        ("1..2.3", 'IPv4 field must have at least one digit (at ".2.3")'),
        ("1.2.3.x", 'unexpected character (at "x")'),
        ("2024-01-01T00:00:00Z", 'unexpected character, want colon (at "-01-01T00:00:00Z")'),
        (":1", 'each colon-separated field must have at least one digit (at ":1")'),
        ("12345::", 'each group must have 4 or less digits (at "12345::")'),
        ("1::2::3", 'multiple :: in address (at ":3")'),
        ("1:2:3", "address string too short"),
        ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
        ("1:2:3:4:5:6:7::8", "the :: must expand to at least one field of zeros"),
        ("1:", 'colon must be followed by more characters (at ":")'),
        ("::1%", "zone must be a non-empty string"),
        ("%eth0", "missing IPv6 address"),
        ("1:2:1.2.3.4", 'embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")'),
    ],
)
def test_refusals_say_what_go_says(text: str, why: str) -> None:
    with pytest.raises(network.NotAnAddress) as caught:
        network.parse(text)
    assert str(caught.value).partition(": ")[2] == why


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_addresses_are_read_as_python_writes_them(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    assert network.parse(str(address)) == (address, "")


@given(st.text("0123456789abcdef:.%/ g", max_size=20))
def test_what_is_accepted_is_an_address_for_python_too(text: str) -> None:
    try:
        address, zone = network.parse(text)
    except network.NotAnAddress:
        return
    assert address == ipaddress.ip_address(text.removesuffix(f"%{zone}"))
