"""Escape sequences in texts of users, drivers or dumps never reach a terminal."""

from __future__ import annotations

import io
import logging
import re
import sys
from pathlib import Path

import pytest

from cathedra.cli.dra.main import main as dra
from cathedra.cli.main import main as cathedra
from cathedra.cluster.process.logs import configure_logging

EVIL = "\\e[2J\\e]0;owned\\a\\x9b1A\\u202e"
"""In double-quoted YAML: clear the screen, name the window, one line up (in one byte), text from right to left."""
DUMP = f"""
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: gpu, labels: {{a: "{EVIL}"}}}}
spec: {{selectors: [{{cel: {{expression: "device.attributes['gpu.example.com'].model == '{EVIL}' // {EVIL}"}}}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: s}}
spec:
  driver: gpu.example.com
  nodeName: n
  pool: {{name: "p{EVIL}", generation: 1, resourceSliceCount: 1}}
  devices:
  - name: "d{EVIL}"
    attributes: {{model: {{string: "m{EVIL}"}}}}
    taints: [{{key: "k{EVIL}", value: "{EVIL}", effect: NoSchedule}}]
---
apiVersion: v1
kind: Node
metadata: {{name: n, labels: {{kubernetes.io/hostname: "{EVIL}"}}}}
status: {{capacity: {{cpu: "4", memory: 8Gi, pods: "10"}}, allocatable: {{cpu: "4", memory: 8Gi, pods: "10"}}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: c, namespace: "default"}}
spec: {{devices: {{requests: [{{name: "r{EVIL}", exactly: {{deviceClassName: gpu}}}}]}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: p, namespace: default}}
spec:
  containers: [{{name: "c{EVIL}", image: "{EVIL}", resources: {{claims: [{{name: r}}]}}}}]
  resourceClaims: [{{name: r, resourceClaimName: c}}]
"""
QUESTIONS = [
    ["explain", "pod/p", "--dump", "DUMP"],
    ["explain", "claim/c", "--dump", "DUMP"],
    ["devices", "--dump", "DUMP", "-o", "wide"],
    ["lint", "DUMP"],
    ["match", "device.attributes['gpu.example.com'].model == 'x'", "--dump", "DUMP", "-o", "wide"],
    ["simulate", "--dump", "DUMP", "--copies", "0"],
    ["explain", "pod/\x1b[2J", "--dump", "DUMP"],
    ["convert", "/no/such\x1b[2J\x9b"],
    ["lint", "/no/such\x1b[2J\x9b"],
]
STYLES = re.compile(r"\x1b\[(?:0|1|2|1;32|1;31)m")
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def asked(words: list[str], dump: Path) -> list[str]:
    dump.write_text(DUMP)
    return [str(dump) if word == "DUMP" else word for word in words]


@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
def test_answers_hold_no_control_characters(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dra(asked(words, tmp_path / "dump.yaml"))
    printed = "".join(capsys.readouterr())
    assert printed.strip()
    assert not UNSAFE.findall(printed)


@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
def test_on_a_terminal_only_the_programs_own_styles_are_sequences(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.delenv("NO_COLOR", raising=False)
    dra(asked(words, tmp_path / "dump.yaml"))
    assert not UNSAFE.findall(STYLES.sub("", screen.getvalue()).replace("\r\x1b[K", ""))


def test_an_error_that_names_a_file_is_printable(capsys: pytest.CaptureFixture[str]) -> None:
    assert cathedra(["status", "--data-dir", "/no\x1b[2J/such"]) != 0
    printed = "".join(capsys.readouterr())
    assert "/no^[[2J/such" in printed


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_log_line_is_one_line_without_control_characters(style: str) -> None:
    written = io.StringIO()
    root, ours = logging.getLogger(), logging.getLogger("cathedra")
    before = (root.handlers, root.level, ours.level)
    try:
        configure_logging("info", "json" if style == "json" else "text", written)
        logging.getLogger("cathedra.node").warning(
            "driver: %s", "\x1b[2J\u202e\n2026-01-01T00:00:00.000Z INFO    apiserver forged"
        )
    finally:
        root.handlers = before[0]
        root.setLevel(before[1])
        ours.setLevel(before[2])
    (line,) = written.getvalue().splitlines()
    assert not UNSAFE.findall(line)
