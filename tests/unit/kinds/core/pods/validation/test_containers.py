"""Rules of containers."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import from_dict
from cathedra.kinds.core.pods.validation._containers import (
    PodReferences,
    port_name,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
    validate_lifecycle,
    validate_probes,
)
from tests.unit.kinds.objects import texts

AROUND = PodReferences(frozenset({"v"}), frozenset({"gpu"}))
COMPLETE = {"image": "i", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}
HANDLER = {"exec": {"command": ["true"]}}


def container(name: str = "c", **fields: Any) -> dict[str, Any]:
    return {"name": name, **COMPLETE, **fields}


def spec(*containers: dict[str, Any], **fields: Any) -> core_v1.PodSpec:
    return from_dict(core_v1.PodSpec, {"containers": list(containers), **fields})


def problems(*containers: dict[str, Any]) -> list[str]:
    errors = ErrorList()
    validate_containers(errors, FieldPath("c"), spec(*containers).containers, AROUND)
    return texts(errors)


def test_a_pod_has_at_least_one_container() -> None:
    assert problems() == ["c: Required value"]
    assert problems(container()) == []


@pytest.mark.parametrize(
    ("policies", "restart", "wanted"),
    [
        ([("cpu", "NotRequired"), ("memory", "RestartContainer")], "Always", []),
        ([("cpu", "NotRequired"), ("cpu", "NotRequired")], "Always", ['c[0].resizePolicy[1]: Duplicate value: "cpu"']),
        (
            [("gpu", "NotRequired")],
            "Always",
            ['c[0].resizePolicy: Unsupported value: "gpu": supported values: "cpu", "memory"'],
        ),
        (
            [("", "")],
            "Always",
            ["c[0].resizePolicy: Required value", "c[0].resizePolicy: Required value"],
        ),
        (
            [("cpu", "Maybe")],
            "Always",
            ['c[0].resizePolicy: Unsupported value: "Maybe": supported values: "NotRequired", "RestartContainer"'],
        ),
        (
            [("cpu", "RestartContainer")],
            "Never",
            [
                "c[0].resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when pod "
                "`restartPolicy` is 'Never'"
            ],
        ),
    ],
)
def test_what_happens_to_a_container_that_is_resized(
    policies: list[tuple[str, str]], restart: str, wanted: list[str]
) -> None:
    given = [{"resourceName": resource, "restartPolicy": policy} for resource, policy in policies]
    errors = ErrorList()
    around = replace(AROUND, restart_policy=restart)
    validate_containers(errors, FieldPath("c"), spec(container(resizePolicy=given)).containers, around)
    assert texts(errors) == wanted


def test_containers_have_names_of_their_own() -> None:
    assert problems(container(), container("d"), container()) == ['c[2].name: Duplicate value: "c"']


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"name": ""}, "c[0].name: Required value"),
        ({"image": ""}, "c[0].image: Required value"),
        (
            {"imagePullPolicy": "Sometimes"},
            'c[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"',
        ),
        ({"terminationMessagePolicy": ""}, "c[0].terminationMessagePolicy: Required value"),
        ({"restartPolicy": "Maybe"}, 'c[0].restartPolicy: Unsupported value: "Maybe": supported values:'),
        ({"ports": [{"protocol": "TCP"}]}, "c[0].ports[0].containerPort: Required value"),
        (
            {"ports": [{"containerPort": 65536, "protocol": "TCP"}]},
            "c[0].ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
        ),
        (
            {"ports": [{"containerPort": 1, "hostPort": 70000, "protocol": "TCP"}]},
            "c[0].ports[0].hostPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        ({"ports": [{"containerPort": 1, "protocol": "HTTP"}]}, 'c[0].ports[0].protocol: Unsupported value: "HTTP"'),
        ({"env": [{"name": ""}]}, "c[0].env[0].name: Required value"),
        ({"env": [{"name": "a=b"}]}, 'c[0].env[0].name: Invalid value: "a=b": a valid environment variable name'),
        (
            {"env": [{"name": "A", "valueFrom": {}}]},
            'c[0].env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`',
        ),
        (
            {"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
            'c[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": ""}}}]},
            "c[0].env[0].valueFrom.secretKeyRef.key: Required value",
        ),
        ({"envFrom": [{}]}, 'c[0].envFrom[0]: Invalid value: "": must specify one of: `configMapRef` or `secretRef`'),
        (
            {"envFrom": [{"configMapRef": {"name": "a"}, "secretRef": {"name": "b"}}]},
            'c[0].envFrom[0]: Invalid value: "": may not have more than one field specified at a time',
        ),
        ({"livenessProbe": {"successThreshold": 1}}, "c[0].livenessProbe: Required value: must specify a handler type"),
        (
            {"livenessProbe": {**HANDLER, "tcpSocket": {"port": 1}, "successThreshold": 1}},
            "c[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
        ),
        (
            {"startupProbe": {**HANDLER, "successThreshold": 2}},
            "c[0].startupProbe.successThreshold: Invalid value: 2: must be 1",
        ),
        (
            {"readinessProbe": {**HANDLER, "periodSeconds": -1}},
            "c[0].readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
        ),
    ],
)
def test_each_field_is_checked_where_it_stands(fields: dict[str, Any], wanted: str) -> None:
    (found,) = problems({**container(), **fields})
    assert found.startswith(wanted)


def test_readiness_may_need_several_successes() -> None:
    assert problems(container(readinessProbe={**HANDLER, "successThreshold": 3})) == []


def test_a_host_port_is_taken_once_in_a_pod() -> None:
    port = {"containerPort": 1, "hostPort": 80, "protocol": "TCP"}
    other = {**port, "protocol": "UDP"}
    found = problems(container(ports=[port]), container("d", ports=[other, port]))
    assert found == ['c[1].ports[1].hostPort: Duplicate value: "TCP//80"']


def test_an_init_container_has_probes_only_if_it_keeps_running() -> None:
    probe = {**HANDLER, "successThreshold": 1}

    def found(**fields: Any) -> list[str]:
        errors = ErrorList()
        made = spec(container("main"), initContainers=[container("i", **fields)])
        validate_init_containers(errors, FieldPath("i"), made, AROUND)
        return texts(errors)

    assert found(livenessProbe=probe, restartPolicy="Always") == []
    assert found(livenessProbe=probe) == [
        "i[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always"
    ]


def test_init_containers_share_the_names_of_the_others() -> None:
    errors = ErrorList()
    made = spec(container("main"), initContainers=[container("main"), container("i"), container("i")])
    validate_init_containers(errors, FieldPath("i"), made, AROUND)
    assert texts(errors) == ['i[0].name: Duplicate value: "main"', 'i[2].name: Duplicate value: "i"']


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, []),
        ({"targetContainerName": "main"}, []),
        ({"targetContainerName": "none"}, ['e[0].targetContainerName: Not found: "none"']),
        (
            {"ports": [{"containerPort": 1, "protocol": "TCP"}]},
            ["e[0].ports: Forbidden: cannot be set for an Ephemeral Container"],
        ),
        (
            {"livenessProbe": {**HANDLER}},
            ["e[0].livenessProbe: Forbidden: cannot be set for an Ephemeral Container"],
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a"}]},
            ["e[0].volumeMounts[0].subPath: Forbidden: cannot be set for an Ephemeral Container"],
        ),
    ],
)
def test_an_ephemeral_container_does_not_matter_to_its_pod(fields: dict[str, Any], wanted: list[str]) -> None:
    errors = ErrorList()
    made = spec(container("main"), ephemeralContainers=[container("e", **fields)])
    validate_ephemeral_containers(errors, FieldPath("e"), made, AROUND)
    assert texts(errors) == wanted


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
