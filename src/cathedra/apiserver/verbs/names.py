"""Which names objects may have, by kind, and names made up from a prefix (spec: apimachinery.md, section 4)."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Final

from cathedra.api.scheme import GroupResource

__all__ = [
    "generate_name",
    "is_dns_label",
    "name_rule",
    "path_segment_problems",
    "qualified_name_problems",
]

NameRule = Callable[[str], Iterator[str]]
"""A name in, what is wrong with it out."""

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LABEL_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", re.ASCII)

_SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_BASE: Final = 58
_SUFFIX_LENGTH: Final = 5


def generate_name(base: str, rng: random.Random) -> str:
    """``base`` (cut to 58 characters) with five random characters."""
    return base[:_GENERATED_BASE] + "".join(rng.choices(_SUFFIX_ALPHABET, k=_SUFFIX_LENGTH))


def dns_subdomain_problems(name: str) -> Iterator[str]:
    """What keeps a text from being an RFC 1123 subdomain."""
    if len(name.encode()) > 253:
        yield "must be no more than 253 bytes"
    if not _SUBDOMAIN.fullmatch(name):
        yield (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start"
            " and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
            r" '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        )


def dns_label_problems(name: str) -> Iterator[str]:
    """What keeps a text from being an RFC 1123 label."""
    if len(name.encode()) > 63:
        yield "must be no more than 63 bytes"
    if not _LABEL.fullmatch(name):
        if _SUBDOMAIN.fullmatch(name):
            yield "must not contain dots"
            return
        yield (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end"
            " with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
            " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        )


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


def is_dns_label(name: str) -> bool:
    """Whether a text is an RFC 1123 label."""
    return len(name) <= 63 and _LABEL.fullmatch(name) is not None


def qualified_name_problems(name: str) -> Iterator[str]:
    """What keeps a text from being ``[prefix/]name``."""
    prefix, slash, short = name.rpartition("/")
    if slash and "/" in prefix:
        yield (
            "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
            " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
            " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/'"
            " (e.g. 'example.com/MyName')"
        )
        return
    if slash:
        if not prefix:
            yield "prefix part must be non-empty"
        else:
            for problem in dns_subdomain_problems(prefix):
                yield f"prefix part {problem}"
    if not short:
        yield "name part must be non-empty"
    elif len(short) > 63:
        yield "name part must be no more than 63 bytes"
    if not _QUALIFIED.fullmatch(short):
        yield (
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
            " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
            " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        )


def label_value_problems(value: str) -> Iterator[str]:
    """What keeps a text from being a label's value."""
    if len(value.encode()) > 63:
        yield "must be no more than 63 bytes"
    if not _LABEL_VALUE.fullmatch(value):
        yield (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start"
            " and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for"
            " validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        )


_RULES: Final[dict[GroupResource, NameRule]] = {
    GroupResource("", "namespaces"): dns_label_problems,
    GroupResource("", "services"): dns_1035_label_problems,
    GroupResource("", "events"): path_segment_problems,
    GroupResource("events.k8s.io", "events"): path_segment_problems,
    GroupResource("rbac.authorization.k8s.io", "roles"): path_segment_problems,
    GroupResource("rbac.authorization.k8s.io", "rolebindings"): path_segment_problems,
    GroupResource("rbac.authorization.k8s.io", "clusterroles"): path_segment_problems,
    GroupResource("rbac.authorization.k8s.io", "clusterrolebindings"): path_segment_problems,
}


def name_rule(resource: GroupResource) -> NameRule:
    """The rule for names of that resource."""
    return _RULES.get(resource, dns_subdomain_problems)
