"""IP addresses and networks, with the rules and error texts of Go's netip (docs/spec/cel.md §6.5).

Python's ``ipaddress`` accepts nearly the same texts, but its errors cannot be compared with Kubernetes'.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from cathedra.api.boundedcache import cached_texts
from cathedra.api.goquote import go_quote
from cathedra.cel.library.costs import SCANNED, SCANNED_TWICE, Cost, scan, size
from cathedra.cel.library.estimates import ONE, Estimate, EstimatedCall, Range
from cathedra.cel.library.overload import Functions, declare
from cathedra.cel.values import NO_SUCH_OVERLOAD, CELValue, Failure, Opaque

if TYPE_CHECKING:
    import ipaddress


_BITS: Final = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)


class IP(Opaque):
    """An IP address of the network library."""

    __slots__ = ("address",)
    type_name = "net.IP"

    def __init__(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
        self.address = address

    def same(self, other: CELValue) -> bool:
        """Return True if both are the same address."""
        return bool(self.address == other.address)

    def size(self) -> int:
        """Return its length in bytes."""
        return len(self.address.packed)

    def __str__(self) -> str:
        return str(self.address)


class CIDR(Opaque):
    """An address with a prefix length; bits beyond the prefix may be set."""

    __slots__ = ("address", "bits")
    type_name = "net.CIDR"

    def __init__(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address, bits: int) -> None:
        self.address, self.bits = address, bits

    def same(self, other: CELValue) -> bool:
        """Return True if address and prefix length are the same."""
        return bool(self.address == other.address and self.bits == other.bits)

    def size(self) -> int:
        """Return the bytes that the prefix covers."""
        return (self.bits + 7) // 8

    def prefix(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address, bits: int) -> int:
        """Return the first ``bits`` bits of an address."""
        return int(address) >> (address.max_prefixlen - bits)

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"


@cached_texts(1024)
def _parsed_ip(text: str) -> IP | Failure:
    try:
        address, zone = parse(text)
    except NotAnAddress as error:
        return Failure(f"IP Address {go_quote(text)} parse error during conversion from string: {error}")
    if zone:
        return Failure(f"IP address {go_quote(text)} with zone value is not allowed")
    # Kubernetes refuses these: the same address would be written in two forms.
    if address.version == 6 and address.ipv4_mapped is not None:
        return Failure(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return IP(address)


@cached_texts(1024)
def _parsed_cidr(text: str) -> CIDR | Failure:
    reason = ""
    host, slash, bits = text.rpartition("/")
    if not slash:
        reason = "no '/'"
    else:
        try:
            address, zone = parse(host)
        except NotAnAddress as error:
            return _bad_cidr(f"netip.ParsePrefix({go_quote(text)}): {error}")
        if zone:
            reason = "IPv6 zones cannot be present in a prefix"
        elif not _BITS.fullmatch(bits):
            reason = f"bad bits after slash: {go_quote(bits)}"
        elif int(bits) > address.max_prefixlen:
            reason = "prefix length out of range"
    if reason:
        return _bad_cidr(f"netip.ParsePrefix({go_quote(text)}): {reason}")
    if address.version == 6 and address.ipv4_mapped is not None:
        return Failure(
            "network address parse error during conversion from string: "
            f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed"
        )
    return CIDR(address, int(bits))


def _bad_cidr(reason: str) -> Failure:
    # Kubernetes wraps the error of its parser in the same text once more.
    twice = "network address parse error during conversion from string: "
    return Failure(f"{twice}{twice}{reason}")


def parse_ip(text: CELValue) -> CELValue:
    """Parse an IP address."""
    return _parsed_ip(text)


def parse_cidr(text: CELValue) -> CELValue:
    """Return the network, or a Failure if the text is none."""
    return _parsed_cidr(text)


def _canonical(text: CELValue) -> CELValue:
    parsed = _parsed_ip(text)
    return parsed if isinstance(parsed, Failure) else str(parsed) == text


def _link_local_multicast(ip: IP) -> bool:
    packed = ip.address.packed
    # Go counts 224.0.0.0/24 only; Python's is_multicast is much wider.
    if len(packed) == 4:
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == 0xFF and packed[1] & 0x0F == 2


def _global_unicast(ip: IP) -> bool:
    address = ip.address
    # Go excludes the broadcast address, which Python's properties do not mention.
    if address.packed == b"\xff\xff\xff\xff":
        return False
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)


def contains_ip(cidr: CELValue, ip: CELValue) -> CELValue:
    """Evaluate containsIP, of an address or its text."""
    if ip.__class__ is str:
        ip = _parsed_ip(ip)
    if not isinstance(ip, IP):
        return NO_SUCH_OVERLOAD
    if ip.address.version != cidr.address.version:
        return False
    return cidr.prefix(ip.address, cidr.bits) == cidr.prefix(cidr.address, cidr.bits)


def contains_cidr(cidr: CELValue, other: CELValue) -> CELValue:
    """Evaluate containsCIDR, of a network or its text."""
    if other.__class__ is str:
        other = _parsed_cidr(other)
        if isinstance(other, Failure):
            return other
    if other.address.version != cidr.address.version or cidr.bits > other.bits:
        return False
    return cidr.prefix(other.address, cidr.bits) == cidr.prefix(cidr.address, cidr.bits)


def _masked(cidr: CIDR) -> CIDR:
    shift = cidr.address.max_prefixlen - cidr.bits
    return CIDR(cidr.address.__class__((int(cidr.address) >> shift) << shift), cidr.bits)


def _contains_cost(*, network: bool, text: bool) -> Cost:
    """Return the cost of containsIP and containsCIDR: both sides in bytes, ``network`` for the comparison of prefixes,
    and ``text`` for an argument that must be parsed first."""

    def count(args: Sequence[CELValue], _: CELValue) -> int:
        own = size(args[0])
        cost = scan(2 * own) + (scan(own) + 1 if network else 0)
        return cost + (scan(size(args[1])) if text else 0)

    def estimate(call: EstimatedCall) -> Estimate:
        # The estimate does not know the family: 4 bytes of IPv4 up to 16 of IPv6.
        bytes_ = Range(4, 16)
        cost = bytes_.plus(bytes_).scaled(0.1)
        if network:
            cost = cost.plus(bytes_.scaled(0.1)).plus(ONE)
        return (cost.plus(call.size(1).scaled(0.1)) if text else cost), None

    return Cost(count, estimate, named=not text)


IPS: Final[Functions] = {
    "ip": (declare("string_to_ip: string -> IP", parse_ip, SCANNED),),
    "family": (declare("ip_family: IP. -> int", lambda ip: ip.address.version),),
    "ip.isCanonical": (declare("ip_is_canonical: string -> bool", _canonical, SCANNED_TWICE),),
    "isUnspecified": (declare("ip_is_unspecified: IP. -> bool", lambda ip: ip.address.is_unspecified),),
    "isLoopback": (declare("ip_is_loopback: IP. -> bool", lambda ip: ip.address.is_loopback),),
    "isLinkLocalMulticast": (declare("ip_is_link_local_multicast: IP. -> bool", _link_local_multicast),),
    "isLinkLocalUnicast": (declare("ip_is_link_local_unicast: IP. -> bool", lambda ip: ip.address.is_link_local),),
    "isGlobalUnicast": (declare("ip_is_global_unicast: IP. -> bool", _global_unicast),),
    "isIP": (declare("is_ip: string -> bool", lambda text: not isinstance(_parsed_ip(text), Failure), SCANNED),),
    "string": (declare("ip_to_string: IP -> string", str),),
}

CIDRS: Final[Functions] = {
    "cidr": (declare("string_to_cidr: string -> CIDR", parse_cidr, SCANNED),),
    "containsIP": (
        declare(
            "cidr_contains_ip_string: CIDR., string -> bool", contains_ip, _contains_cost(network=False, text=True)
        ),
        declare("cidr_contains_ip_ip: CIDR., IP -> bool", contains_ip, _contains_cost(network=False, text=False)),
    ),
    "containsCIDR": (
        declare(
            "cidr_contains_cidr_string: CIDR., string -> bool", contains_cidr, _contains_cost(network=True, text=True)
        ),
        declare("cidr_contains_cidr: CIDR., CIDR -> bool", contains_cidr, _contains_cost(network=True, text=False)),
    ),
    "ip": (declare("cidr_ip: CIDR. -> IP", lambda cidr: IP(cidr.address)),),
    "prefixLength": (declare("cidr_prefix_length: CIDR. -> int", lambda cidr: cidr.bits),),
    "masked": (declare("cidr_masked: CIDR. -> CIDR", _masked),),
    "isCIDR": (declare("is_cidr: string -> bool", lambda text: not isinstance(_parsed_cidr(text), Failure), SCANNED),),
    "string": (declare("cidr_to_string: CIDR -> string", str),),
}


Address = ipaddress.IPv4Address | ipaddress.IPv6Address


_DIGITS: Final = "0123456789"
_HEX: Final = "0123456789abcdefABCDEF"
_GROUPS: Final = 16
"""Bytes of an IPv6 address."""


class NotAnAddress(ValueError):
    """The text is no address; the message is Go's."""

    def __init__(self, text: str, message: str, at: str = "") -> None:
        place = f" (at {go_quote(at)})" if at else ""
        super().__init__(f"ParseAddr({go_quote(text)}): {message}{place}")


def parse(text: str) -> tuple[Address, str]:
    """Return the address and its zone, empty if there is none.

    Raises:
        NotAnAddress: the text is none.
    """
    for char in text:
        if char == ".":
            return ipaddress.IPv4Address(_four_fields(text, text)), ""
        if char == ":":
            packed, zone = _six(text)
            return ipaddress.IPv6Address(packed), zone
        if char == "%":
            raise NotAnAddress(text, "missing IPv6 address")
    raise NotAnAddress(text, "unable to parse IP")


def _four_fields(whole: str, text: str) -> bytes:
    fields: list[int] = []
    value = digits = 0
    for position, char in enumerate(text):
        if char in _DIGITS:
            # Leading zeros are octal in some parsers, so Go refuses them; texts must match Go's position by position.
            if digits == 1 and value == 0:
                raise NotAnAddress(whole, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(char), digits + 1
            if value > 255:
                raise NotAnAddress(whole, "IPv4 field has value >255")
        elif char == ".":
            if position in (0, len(text) - 1) or text[position - 1] == ".":
                raise NotAnAddress(whole, "IPv4 field must have at least one digit", text[position:])
            if len(fields) == 3:
                raise NotAnAddress(whole, "IPv4 address too long")
            fields.append(value)
            value = digits = 0
        else:
            raise NotAnAddress(whole, "unexpected character", text[position:])
    if len(fields) < 3:
        raise NotAnAddress(whole, "IPv4 address too short")
    return bytes((*fields, value))


def _six(whole: str) -> tuple[bytes, str]:
    text, percent, zone = whole.partition("%")
    if percent and not zone:
        raise NotAnAddress(whole, "zone must be a non-empty string")
    packed = b""
    gap = -1
    if text.startswith("::"):
        gap, text = 0, text[2:]
        if not text:
            return bytes(_GROUPS), zone
    while len(packed) < _GROUPS:
        length = _hex_length(whole, text)
        # The tail of the address may be written as IPv4.
        if text[length : length + 1] == ".":
            packed += _embedded(whole, text, len(packed), has_gap=gap >= 0)
            text = ""
            break
        packed += int(text[:length], 16).to_bytes(2, "big")
        text = text[length:]
        if not text:
            break
        # From here on the order of the checks decides which of several errors is reported, as in netip.parseIPv6.
        if text[0] != ":":
            raise NotAnAddress(whole, "unexpected character, want colon", text)
        if len(text) == 1:
            raise NotAnAddress(whole, "colon must be followed by more characters", text)
        text = text[1:]
        if text[0] == ":":
            if gap >= 0:
                raise NotAnAddress(whole, "multiple :: in address", text)
            gap, text = len(packed), text[1:]
            if not text:
                break
    if text:
        raise NotAnAddress(whole, "trailing garbage after address", text)
    return _filled(whole, packed, gap), zone


def _hex_length(whole: str, text: str) -> int:
    length = 0
    while length < len(text) and text[length] in _HEX:
        length += 1
        if length > 4:
            raise NotAnAddress(whole, "each group must have 4 or less digits", text)
    if not length:
        raise NotAnAddress(whole, "each colon-separated field must have at least one digit", text)
    return length


def _embedded(whole: str, text: str, done: int, *, has_gap: bool) -> bytes:
    if not has_gap and done != _GROUPS - 4:
        raise NotAnAddress(whole, "embedded IPv4 address must replace the final 2 fields of the address", text)
    if done + 4 > _GROUPS:
        raise NotAnAddress(whole, "too many hex fields to fit an embedded IPv4 at the end of the address", text)
    return _four_fields(whole, text)


def _filled(whole: str, packed: bytes, gap: int) -> bytes:
    if len(packed) < _GROUPS:
        if gap < 0:
            raise NotAnAddress(whole, "address string too short")
        return packed[:gap] + bytes(_GROUPS - len(packed)) + packed[gap:]
    if gap >= 0:
        raise NotAnAddress(whole, "the :: must expand to at least one field of zeros")
    return packed
