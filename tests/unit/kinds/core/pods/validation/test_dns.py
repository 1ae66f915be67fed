"""Rules of a pod's own DNS configuration."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import from_dict
from cathedra.kinds.core.pods.validation.dns import validate_dns_config
from tests.unit.kinds.objects import texts


def problems(policy: str = "ClusterFirst", config: dict[str, Any] | None = None) -> list[str]:
    errors = ErrorList()
    body: dict[str, Any] = {"containers": [], "dnsPolicy": policy}
    if config is not None:
        body["dnsConfig"] = config
    validate_dns_config(errors, FieldPath("d"), from_dict(core_v1.PodSpec, body))
    return texts(errors)


def test_a_pod_needs_no_configuration_unless_it_has_no_policy() -> None:
    assert problems() == []
    assert problems("None") == ["d: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]
    assert problems("None", {"searches": ["a"]}) == [
        "d.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None"
    ]


def test_what_resolvers_take() -> None:
    searches = ["ns.svc.cluster.local.", "_tcp.example.com", "."]
    config = {
        "nameservers": ["10.0.0.1", "fd00::1"],
        "searches": searches,
        "options": [{"name": "ndots", "value": "2"}],
    }
    assert problems("None", config) == []


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"nameservers": ["dns"]},
            'd.nameservers[0]: Invalid value: "dns": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        ),
        ({"options": [{"value": "x"}]}, "d.options[0]: Required value: must not be empty"),
    ],
)
def test_what_they_do_not_take(config: dict[str, Any], expected: str) -> None:
    assert problems(config=config) == [expected]


def test_there_are_limits() -> None:
    (text,) = problems(config={"nameservers": ["1.1.1.1"] * 4})
    assert text.endswith("must not have more than 3 nameservers")
    found = problems(config={"searches": ["a" * 63 + "." + "b" * 3] * 33})
    assert [text.rpartition(": ")[2] for text in found] == [
        "must not have more than 32 search paths",
        "must not have more than 2048 characters (including spaces) in the search list",
    ]
    (text,) = problems(config={"searches": ["a b"]})
    assert text.startswith('d.searches[0]: Invalid value: "a b": a lowercase RFC 1123 subdomain')
