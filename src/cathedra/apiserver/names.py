"""Which names objects may have, by kind, and names made up from a prefix (spec: apimachinery.md, section 4)."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from cathedra.api.formats import dns_label, dns_subdomain, in_bytes
from cathedra.api.scheme import GroupResource

__all__ = ["ANY_PREFIX", "generate_name", "generate_uid", "name_rule", "path_segment_problems"]

ANY_PREFIX: Final = frozenset({GroupResource("resource.k8s.io", "deviceclasses")})
"""Kinds whose ``generateName`` nobody checks: only the name made from it."""

NameRule = Callable[[str], Iterable[str]]
"""A name in, what is wrong with it out."""

_LABEL_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)

_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_BASE: Final = 58
_SUFFIX_LENGTH: Final = 5
_UUID_FREE: Final = ~(0xF000 << 64 | 0xC000 << 48)
_UUID_FIXED: Final = 0x4000 << 64 | 0x8000 << 48


def generate_name(base: str, rng: random.Random) -> str:
    """``base`` (cut to 58 characters) with five random characters."""
    return base[:_GENERATED_BASE] + "".join(rng.choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH))


def generate_uid(rng: random.Random) -> str:
    """A random UUID (version 4), as the library would write it; it takes 4 µs, this 1."""
    number = rng.getrandbits(128) & _UUID_FREE | _UUID_FIXED
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def dns_1035_label_problems(name: str) -> Iterator[str]:
    """What keeps a text from being an RFC 1035 label."""
    if len(name.encode()) > 63:
        yield "must be no more than 63 bytes"
    if not _LABEL_1035.fullmatch(name):
        yield (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
            " character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for"
            " validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        )


def path_segment_problems(name: str) -> Iterator[str]:
    """What keeps a text from standing in a URL as one segment."""
    if name in {".", ".."}:
        yield f"may not be '{name}'"
        return
    for part in "/", "%":
        if part in name:
            yield f"may not contain '{part}'"


_RULES: Final[dict[GroupResource, NameRule]] = {
    GroupResource("", "namespaces"): dns_label,
    GroupResource("", "services"): dns_1035_label_problems,
    GroupResource("resource.k8s.io", "deviceclasses"): in_bytes(dns_subdomain),
    GroupResource("", "events"): path_segment_problems,
    GroupResource("events.k8s.io", "events"): path_segment_problems,
    GroupResource("rbac.authorization.k8s.io", "roles"): path_segment_problems,
    GroupResource("rbac.authorization.k8s.io", "rolebindings"): path_segment_problems,
    GroupResource("rbac.authorization.k8s.io", "clusterroles"): path_segment_problems,
    GroupResource("rbac.authorization.k8s.io", "clusterrolebindings"): path_segment_problems,
}


def name_rule(resource: GroupResource) -> NameRule:
    """The rule for names of that resource."""
    return _RULES.get(resource, dns_subdomain)
