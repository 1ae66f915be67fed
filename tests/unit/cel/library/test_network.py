"""Addresses and networks (docs/spec/cel.md §6.5)."""

from __future__ import annotations

import pytest

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
