"""Rules of probes and of handlers of the lifecycle."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import from_dict
from cathedra.kinds.core.pods.validation.handlers import port_name, validate_lifecycle, validate_probes
from tests.unit.kinds.objects import texts

HTTP = {"path": "/", "port": 80, "scheme": "HTTP"}


def ends(grace: int | None = 30, **lifecycle: Any) -> list[str]:
    errors = ErrorList()
    validate_lifecycle(errors, FieldPath("l"), from_dict(core_v1.Lifecycle, lifecycle), grace)
    return texts(errors)


def probed(**fields: Any) -> list[str]:
    errors = ErrorList()
    validate_probes(errors, FieldPath("c"), from_dict(core_v1.Container, {"name": "c", **fields}))
    return texts(errors)


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        ({"exec": {"command": ["true"]}}, []),
        ({}, ["l.preStop: Required value: must specify a handler type"]),
        ({"exec": {}}, ["l.preStop.exec.command: Required value"]),
        ({"httpGet": HTTP}, []),
        (
            {"httpGet": {**HTTP, "path": "", "port": 0, "scheme": "FTP"}},
            [
                "l.preStop.httpGet.path: Required value",
                "l.preStop.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                'l.preStop.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"',
            ],
        ),
        (
            {"httpGet": HTTP, "exec": {"command": ["true"]}},
            ["l.preStop.httpGet: Forbidden: may not specify more than 1 handler type"],
        ),
        (
            {"tcpSocket": {"port": "-a"}},
            ['l.preStop.tcpSocket.port: Invalid value: "-a": must not begin or end with a hyphen'],
        ),
        ({"sleep": {"seconds": 30}}, []),
        (
            {"sleep": {"seconds": 31}},
            [
                "l.preStop.sleep: Invalid value: 31: must be non-negative and less than "
                "terminationGracePeriodSeconds (30)"
            ],
        ),
    ],
)
def test_a_handler_does_one_thing(handler: dict[str, Any], expected: list[str]) -> None:
    assert ends(preStop=handler) == expected


def test_headers_have_names_of_letters_digits_and_dashes() -> None:
    (text,) = ends(postStart={"httpGet": {**HTTP, "httpHeaders": [{"name": "X-A", "value": ""}, {"name": "a b"}]}})
    assert text.startswith('l.postStart.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header must consist of')


def test_probes_count_and_ask_in_ways_that_make_sense() -> None:
    probe = {"grpc": {"port": 70000}, "successThreshold": 1}
    assert probed(livenessProbe=probe) == [
        "c.livenessProbe.grpc.port: Invalid value: 70000: must be between 1 and 65535, inclusive"
    ]
    ended = {"exec": {"command": ["true"]}, "successThreshold": 1, "terminationGracePeriodSeconds": 0}
    where = "terminationGracePeriodSeconds: Invalid value: 0"
    assert probed(startupProbe=ended) == [f"c.startupProbe.{where}: must be greater than 0"]
    assert f"c.readinessProbe.{where}: must not be set for readinessProbes" in probed(readinessProbe=ended)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("http", []),
        ("a" * 16, ["must be no more than 15 characters"]),
        ("80", ["must contain at least one letter (a-z)"]),
        ("a--b", ["must not contain consecutive hyphens"]),
        ("-a", ["must not begin or end with a hyphen"]),
        ("A", ["must contain only alpha-numeric", "must contain at least one letter (a-z)"]),
    ],
)
def test_a_port_name_says_everything_that_is_wrong_with_it(name: str, wanted: list[str]) -> None:
    found = port_name(name)
    assert len(found) == len(wanted)
    assert all(one.startswith(start) for one, start in zip(found, wanted, strict=True))
