"""``--timeout``: every question has an end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from cathedra.cli.dra.main import main
from tests.unit.cli.dra.dumps import gpu_cluster, write_dump

CUBE = str(list(range(18)))
SLOW = f"{CUBE}.all(a, {CUBE}.all(b, {CUBE}.all(c, a + b + c >= 0 || device.driver == 'x')))"
"""Accepted by the API server; some 0.2 s for each device that differs from others."""
PER_DEVICE = f'({SLOW}) && device.attributes["gpu.example.com"].uuid != "x"'

POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, image: i, resources: {claims: [{name: g}]}}]
  resourceClaims: [{name: g, resourceClaimTemplateName: t}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: t}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 2,
  selectors: [{cel: {expression: EXPRESSION}}]}}]}}}
"""


@pytest.fixture
def dump(tmp_path: Path) -> str:
    objects = gpu_cluster(nodes=2, gpus=120)
    for one in objects:
        for number, device in enumerate(one["spec"].get("devices", ()) if one["kind"] == "ResourceSlice" else ()):
            device["attributes"]["uuid"] = {"string": f"{one['metadata']['name']}-{number}"}
    return write_dump(tmp_path / "dump.json", objects)


@pytest.fixture
def pod(tmp_path: Path) -> str:
    path = tmp_path / "pod.yaml"
    path.write_text(POD.replace("EXPRESSION", repr(PER_DEVICE.replace("'x'", '"x"'))))
    return str(path)


@pytest.mark.parametrize("command", ["match", "explain", "simulate", "lint"])
def test_a_question_that_takes_too_long_gets_one_line_and_exit_code_2(
    command: str, dump: str, pod: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {
        "match": ["match", PER_DEVICE, "--dump", dump],
        "explain": ["explain", "-f", pod, "--dump", dump],
        "simulate": ["simulate", "-f", pod, "--dump", dump],
        "lint": ["lint", pod, "--dump", dump],
    }[command]
    before = signal.getsignal(signal.SIGALRM)
    assert main([*asked, "--timeout", "1"]) == 2
    assert capsys.readouterr() == ("", "kubectl dra: no answer after 1 s; --timeout sets another limit (0: none)\n")
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_negative_time_is_a_wrong_call(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["devices", "--dump", dump, "--timeout", "-1"])
    assert ended.value.code == 2
    assert "--timeout" in capsys.readouterr().err
