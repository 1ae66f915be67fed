"""Rules of a pod's own DNS configuration; the limits are those of resolvers."""

from __future__ import annotations

import ipaddress
from typing import Final

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check, dns_subdomain

__all__ = ["validate_dns_config"]

_NAMESERVERS: Final = 3
_SEARCHES: Final = 32
_SEARCH_LETTERS: Final = 2048
_NO_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def validate_dns_config(errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec) -> None:
    """Few servers with addresses, search paths that are domains, options with names; policy None needs a server."""
    config = spec.dns_config
    if spec.dns_policy == "None":
        if config is None:
            errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.nameservers:
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errors.required(path.child("nameservers"), text)
            return
    if config is None:
        return
    servers, searches = list(config.nameservers), list(config.searches)
    if len(servers) > _NAMESERVERS:
        errors.invalid(path.child("nameservers"), servers, f"must not have more than {_NAMESERVERS} nameservers")
    for position, server in enumerate(servers):
        if not _is_address(server):
            errors.invalid(path.child("nameservers").index(position), server, _NO_ADDRESS)
    where = path.child("searches")
    if len(searches) > _SEARCHES:
        errors.invalid(where, searches, f"must not have more than {_SEARCHES} search paths")
    if len(" ".join(searches)) > _SEARCH_LETTERS:
        text = f"must not have more than {_SEARCH_LETTERS} characters (including spaces) in the search list"
        errors.invalid(where, searches, text)
    for position, search in enumerate(searches):
        if search != ".":
            check(errors, where.index(position), search.removesuffix("."), _search)
    for position, option in enumerate(config.options):
        if not option.name:
            errors.required(path.child("options").index(position), "must not be empty")


def _search(value: str) -> list[str]:
    """A search path may have labels that begin with an underscore, as services of SRV records have."""
    return dns_subdomain(".".join(label.removeprefix("_") for label in value.split(".")))


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return "%" not in value
