"""The most likely mistakes with each command: exit code 2 and one line with the remedy, piped and on terminals."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Shell

DEAD = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
"""
FILES = {
    "file": "",
    "malformed.yaml": "a: [",
    "other.yaml": "apiVersion: v1\nkind: ConfigMap\n",
    "typo.yaml": "apiVersion: cathedra.dev/v1\nkind: Cluster\nspec: {nodse: 2}\n",
    "malformed.config": "apiVersion: v1\nkind: Config\nclusters: [\n",
    "dead.config": DEAD,
    "no.pem": "no certificate",
}
BAD_NAME = "the name of a cluster consists of lower case letters"
MISTAKES = {
    "stauts": "COMMAND is unknown: 'stauts'; did you mean 'status'?",
    "--verbose up": "unrecognized arguments: --verbose",
    "up --nodes": "--nodes needs a value (see: cathedra up --help)",
    "up --nodes two": "--nodes must be a whole number, got 'two'",
    "up --nodes -1": "--nodes must not be negative, got -1",
    "up --node 2": "unrecognized arguments: --node; did you mean '--nodes'?",
    "up --gpu-memory 80GB": "--gpu-memory '80GB' is no quantity; write it as 80Gi",
    "up --gpu-partitions 2 --kubernetes-version 1.34": "--gpu-partitions needs --feature-gates",
    "up --driver-name My_Driver": "--driver-name 'My_Driver' is no DNS name",
    "up --store mysql": "--store must be sqlite, memory or etcd://HOST:PORT, got 'mysql'",
    "up --runtime docker": "--runtime must be one of auto, cri, oci, process, simulated: 'docker'",
    "up --kubernetes-version 1.25": "--kubernetes-version must be one of",
    "up --feature-gates DRAPartitionableDevices": "is not of the form NAME=VALUE",
    "up --feature-gates NoSuchGate=true": "unrecognized feature gate: NoSuchGate",
    "up --data-dir file": "file is no directory",
    "up --config none.yaml": "cannot read none.yaml: No such file or directory",
    "up --config malformed.yaml": "malformed.yaml: yaml: line 1",
    "up --config other.yaml": "other.yaml: it must begin with apiVersion: cathedra.dev/v1 and kind: Cluster",
    "up --config typo.yaml": "typo.yaml: spec.nodse is unknown; did you mean 'nodes'?",
    "scheduler --leader-elect-lease-duration 15": "--leader-elect-lease-duration: '15' is no duration, as 15s or 1m30s",
    "controller-manager --leader-elect-renew-deadline 20s": (
        "--leader-elect-lease-duration must be greater than --leader-elect-renew-deadline"
    ),
    "scheduler --leader-elect-retry-period 9s": "must be greater than 1.2 times --leader-elect-retry-period",
    "up a b": "cathedra up: unrecognized arguments: b",
    "up Bad_Name": BAD_NAME,
    "up --detach --audit-policy-file none.yaml": "none.yaml: No such file or directory",
    "up --detach --store etcd://127.0.0.1:1": "etcd at 127.0.0.1:1 cannot be reached",
    "down Bad_Name": BAD_NAME,
    "down a b": "cathedra down: unrecognized arguments: b",
    "down --al": "cathedra down: unrecognized arguments: --al",
    "down --data-dir": "--data-dir needs a value",
    "delete Bad_Name": BAD_NAME,
    "delete a b": "cathedra delete: unrecognized arguments: b",
    "delete --force": "cathedra delete: unrecognized arguments: --force",
    "delete --data-dir": "--data-dir needs a value",
    "kubeconfig Bad_Name": BAD_NAME,
    "kubeconfig a b": "cathedra kubeconfig: unrecognized arguments: b",
    "kubeconfig --merge": "cathedra kubeconfig: unrecognized arguments: --merge",
    "kubeconfig --data-dir": "--data-dir needs a value",
    "kubeconfig --for": "--for needs a value",
    "backup": "cathedra backup: the following arguments are required: FILE",
    "backup a b": "cathedra backup: unrecognized arguments: b",
    "backup -c Bad_Name there": BAD_NAME,
    "backup --cluster": "-c/--cluster needs a value",
    "restore": "cathedra restore: the following arguments are required: FILE",
    "restore none.backup": "none.backup",
    "restore other.yaml": "other.yaml",
    "restore -c Bad_Name other.yaml": BAD_NAME,
    "restore a b": "cathedra restore: unrecognized arguments: b",
    "list a": "cathedra list: unrecognized arguments: a",
    "list -o yaml": "-o/--output must be one of table, json: 'yaml'",
    "list -o": "-o/--output needs a value",
    "logs a b": "cathedra logs: unrecognized arguments: b",
    "logs -c Bad_Name": BAD_NAME,
    "logs -c": "-c/--cluster needs a value",
    "logs --folow": "unrecognized arguments: --folow; did you mean '--follow'?",
    "status Bad_Name": BAD_NAME,
    "status a b": "cathedra status: unrecognized arguments: b",
    "status -o yaml": "-o/--output must be one of table, json: 'yaml'",
    "status -n": "-n/--namespace needs a value",
    "status --wach": "unrecognized arguments: --wach; did you mean '--watch'?",
    "dra explian pod/x": "'explian'; did you mean 'explain'?",
    "dra explain": "no configuration has been provided; name a file with --kubeconfig",
    "dra devices -o xml": "-o/--output must be one of table, wide, json, yaml: 'xml'",
    "dra devices --fre": "unrecognized arguments: --fre; did you mean '--free'?",
    "dra simulate --copies two": "--copies must be a whole number, got 'two'",
    "dra rights a": "cathedra dra rights: unrecognized arguments: a",
    "classic-test-driver": "the following arguments are required: PROGRAM",
    "classic-test-driver controler": "'controler'; did you mean 'controller'?",
    "classic-test-driver controller --workers two": "--workers must be a whole number, got 'two'",
    "classic-test-driver controller --resource-config none.json": "none.json: No such file or directory",
    "classic-test-driver kubelet-plugin": "--node-name or $NODE_NAME is needed: the node that the driver runs on",
    "classic-test-driver -v=high controller": "must be a whole number, got 'high'",
    "classic-test-driver --feature-gates ContextualLogging controller": "is not of the form NAME=VALUE",
    "demo now": "cathedra demo: unrecognized arguments: now",
    "demo --runtime docker": "--runtime must be one of auto, oci, process: 'docker'",
    "demo --keeep": "unrecognized arguments: --keeep; did you mean '--keep'?",
    "enrol": "the following arguments are required: --node-name",
    "enrol --node-name n1": "has no certificates yet; start cathedra apiserver or cathedra up on it first",
    "enrol --node-name Bad_Name": "--node-name 'Bad_Name': a lowercase RFC 1123 subdomain",
    "enrol --node-name n1 --address here": "--address must be an IP address under which the node is reached",
    "enrol --name n1": "the following arguments are required: --node-name",
    "apiserver --port https": "--port must be a whole number, got 'https'",
    "apiserver --port 99999": "--port must be between 0 and 65535, got 99999",
    "apiserver --store mysql": "--store must be sqlite, memory or etcd://HOST:PORT, got 'mysql'",
    "apiserver --data-dir file": "file is no directory",
    "apiserver --audit-policy-file none.yaml": "none.yaml: No such file or directory",
    "node": "the following arguments are required: --node-name",
    "node --node-name n1 --runtime docker": "--runtime must be one of auto, cri, oci, process: 'docker'",
    "node --node-name n1 --port https": "--port must be a whole number, got 'https'",
    "driver": "--node-name or $NODE_NAME is needed: the node that the driver runs on",
    "driver --node-name n1 --kubeconfig dead.config --gpus -1": "--gpus must not be negative, got -1",
    "scheduler --kubeconfig dead.config --config none.yaml": "none.yaml: No such file or directory",
    "scheduler --kubeconfig dead.config --config other.yaml": "kind: KubeSchedulerConfiguration",
    "scheduler --secure-port https": "--secure-port must be a whole number, got 'https'",
    "advisor --events maybe": "--events must be one of on, off: 'maybe'",
    "advisor --kubeconfig dead.config --max-events-per-minute 0": "--max-events-per-minute must be at least 1, got 0",
    "advisor --kubeconfig dead.config --feature-gates Nope": "--feature-gates 'Nope' is not of the form NAME=VALUE",
    "controller-manager --kubeconfig dead.config --controllers nope": "'nope' is not in the list of known controllers",
    "controller-manager --kubeconfig dead.config --cluster-signing-cert-file no.pem": "belong together: name both",
} | {
    f"{part} --kubeconfig {file}": said
    for part in ("scheduler", "controller-manager", "advisor", "node --node-name n1", "driver --node-name n1")
    for file, said in (
        ("none.config", "stat none.config: no such file or directory"),
        ("malformed.config", "error loading config file malformed.config: yaml: line 3"),
        ("other.yaml", "other.yaml: current-context is not set"),
    )
}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A home with the files that the mistakes name, and no cluster."""
    home = tmp_path_factory.mktemp("home")
    for name, text in FILES.items():
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(text)
    return Shell(home)


@pytest.mark.parametrize(("words", "said"), MISTAKES.items(), ids=[words or "nothing" for words in MISTAKES])
def test_a_mistake_gets_one_line_piped_and_on_terminals(words: str, said: str, shell: Shell) -> None:
    done = shell.run(*words.split())
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stdout == "" or "--detach" in words
    assert not context_of(shell.home)
    if "--detach" in words:
        return  # its line may speak of a port, which is another each time
    for columns in (80, 160):
        screen = shell.on_a_terminal(columns, *words.split())
        assert (screen.code, screen.lines) == (2, done.stderr.splitlines())


def context_of(home: Path) -> bool:
    """True if a kubeconfig was made."""
    return (home / ".kube" / "config").exists()
