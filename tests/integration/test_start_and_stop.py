"""Starting where one cannot start: one readable line, exit code 2, and whatever runs goes on running."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cathedra.cluster.data.directories import DEFAULT_NAME, own_context
from tests.integration.conftest import Kubectl, RunningCluster


def cathedra(*words: str, data_dir: Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    command = [sys.executable, "-m", "cathedra.cli.main", *words, f"--data-dir={data_dir}"]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=150, check=False, env=os.environ | {"HOME": str(data_dir)}
    )


@pytest.fixture(scope="module")
def running(start_cluster: Callable[..., RunningCluster]) -> RunningCluster:
    """A cluster without nodes."""
    return start_cluster("--nodes=0")


def test_a_data_directory_serves_one_process_at_a_time(running: RunningCluster) -> None:
    pid = running.data.holder()
    refused = cathedra("apiserver", data_dir=running.data.path)
    assert refused.returncode == 2
    assert refused.stderr.splitlines() == [
        f"cathedra: {running.data.path} is in use by process {pid}; "
        f"stop it with: cathedra down --data-dir {running.data.path}"
    ]
    for words in (("up", "--no-merge"), ("up", "--detach", "--no-merge")):
        done = cathedra(*words, data_dir=running.data.path)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"runs as process {pid}, nodes: 0" in done.stdout
    assert "default" in Kubectl(running)("get", "namespaces")


@pytest.mark.parametrize("words", [("up", "--no-merge"), ("up", "--detach", "--no-merge"), ("apiserver",)])
def test_a_port_that_is_taken_is_named(words: tuple[str, ...], tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = cathedra(*words, f"--port={port}", data_dir=tmp_path)
    assert refused.returncode == 2
    last = refused.stderr.splitlines()[-1]
    assert f"port {port} of 127.0.0.1 is in use by another program" in last
    assert "Traceback" not in refused.stderr


def test_what_was_written_is_there_after_down_and_up(running: RunningCluster) -> None:
    kubectl = Kubectl(running)
    kubectl("create", "configmap", "kept", "--from-literal=a=b")
    port = (running.data.path / "port").read_text()
    running.down()
    assert running.data.holder() is None
    assert cathedra("status", data_dir=running.data.path).returncode == 1
    running.up()
    assert (running.data.path / "port").read_text() == port
    assert kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}") == "b"


def test_another_versions_data_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "layout").write_text("99\n")
    refused = cathedra("up", "--no-merge", data_dir=tmp_path)
    assert refused.returncode == 2
    assert "has layout '99', this version of Cathedra reads" in refused.stderr
    assert (tmp_path / "layout").read_text() == "99\n"


@pytest.mark.parametrize(("name", "why"), [("sa.key", "is no private key"), ("ca.crt", "no certificate with its key")])
def test_damaged_keys_are_told_in_one_line_before_anything_is_served(name: str, why: str, tmp_path: Path) -> None:
    pki = tmp_path / "pki"
    pki.mkdir()
    for file in (name, name.replace(".crt", ".key")):
        (pki / file).write_text("garbage")
    refused = cathedra("apiserver", data_dir=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert why in refused.stderr
    assert (pki / name).read_text() == "garbage"


def test_a_database_that_lost_writes_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "objects.sqlite.revision").write_text("00000000000000000345\n")
    refused = cathedra("apiserver", data_dir=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "start once with --accept-lost-writes 345" in refused.stderr


def test_a_context_that_is_not_ours_is_never_overwritten(tmp_path: Path) -> None:
    own = tmp_path / ".kube" / "config"
    own.parent.mkdir()
    context = own_context(DEFAULT_NAME, tmp_path)
    text = (
        f"apiVersion: v1\nkind: Config\ncurrent-context: {context}\n"
        f"contexts: [{{name: {context}, context: {{cluster: mine, user: me}}}}]\n"
        "clusters: [{name: mine, cluster: {server: 'https://example.com'}}]\nusers: [{name: me, user: {}}]\n"
    )
    own.write_text(text)
    refused = cathedra("up", "--nodes=0", data_dir=tmp_path)
    assert refused.returncode == 2
    assert f"context {context!r} exists and was not made by cathedra" in refused.stderr
    assert own.read_text() == text


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("--runtime-config=example.com/v9=true", "unknown api groups example.com/v9"),
        ("--audit-policy-file=/dev/null", "an audit policy has kind: Policy"),
        ("--audit-policy-file=/nowhere", "No such file or directory"),
        ("--store=etcd://127.0.0.1:1", "etcd at"),
    ],
)
def test_what_only_the_server_can_judge_is_told_in_one_line_too(option: str, why: str, tmp_path: Path) -> None:
    refused = cathedra("up", "--no-merge", option, data_dir=tmp_path)
    assert refused.returncode == 2
    assert why in refused.stderr.splitlines()[-1]
    assert "Traceback" not in refused.stderr


def test_requests_are_written_down_and_more_versions_served(
    start_cluster: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    log = tmp_path / "audit.log"
    cluster = start_cluster("--nodes=0", f"--audit-log-path={log}", "--runtime-config=resource.k8s.io/v1beta1=true")
    kubectl = Kubectl(cluster)
    assert "resource.k8s.io/v1beta1" in kubectl("api-versions")
    kubectl("create", "configmap", "seen")
    cluster.down()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    created = next(e for e in events if e["verb"] == "create" and e["objectRef"].get("name") == "seen")
    assert (created["kind"], created["user"]["username"], created["responseStatus"]["code"]) == (
        "Event",
        "kubernetes-admin",
        201,
    )
