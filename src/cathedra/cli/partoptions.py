"""Options of the parts that run alone, of their drivers, and of the files with which a node joins.

Standard library only, as `cathedra.cli.options`. `go_words` accepts the command lines of Kubernetes' own programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from cathedra.cli.options import CRI_SOCKET, DATA_DIR, NODE_RUNTIMES, POD_NETWORK, SELECTED, CommandOption, release
from cathedra.cluster import InvalidOption
from cathedra.releases.table import CLASSIC_RELEASES, DEFAULT_CLASSIC

KUBECONFIG: Final = CommandOption(
    name="--kubeconfig",
    type=Path,
    metavar="FILE",
    about="kubeconfig of the cluster (default: $KUBECONFIG, else ~/.kube/config)",
)
LEADER_ELECT: Final = CommandOption(
    name="--leader-elect", type=None, about="work only while this process holds the lease"
)
COMPONENT: Final = (
    LEADER_ELECT,
    CommandOption(
        name="--leader-elect-resource-name",
        default="",
        metavar="NAME",
        about="name of the lease in kube-system (default: Kubernetes' name for the part)",
    ),
    CommandOption(
        name="--leader-elect-lease-duration",
        default="",
        metavar="TIME",
        about="time without renewal after which others take the lease (default 15s)",
    ),
    CommandOption(
        name="--leader-elect-renew-deadline",
        default="",
        metavar="TIME",
        about="time for which the leader tries to renew its lease before it stops (default 10s)",
    ),
    CommandOption(
        name="--leader-elect-retry-period",
        default="",
        metavar="TIME",
        about="time between two attempts to acquire or renew the lease (default 2s)",
    ),
    CommandOption(
        name="--bind-address", default="127.0.0.1", metavar="IP", about="address of --secure-port (default 127.0.0.1)"
    ),
    CommandOption(
        name="--secure-port",
        type=int,
        default=0,
        metavar="PORT",
        about="port for /healthz and /metrics (Kubernetes: 10259 and 10257; default 0: none)",
    ),
    CommandOption(
        name="--tls-cert-file",
        type=Path,
        metavar="FILE",
        about="certificate of --secure-port (default: a self-signed one is made)",
    ),
    CommandOption(name="--tls-private-key-file", type=Path, metavar="FILE", about="key of that certificate"),
)
"""Options of scheduler and controller manager."""
ADVISOR: Final = (
    CommandOption(
        name="--events",
        choices=("on", "off"),
        default="on",
        about="write events on pods, claims, classes, slices and nodes (default on)",
    ),
    CommandOption(
        name="--namespace",
        default="",
        metavar="NAME",
        about="explain only pods and claims of this namespace; devices of all are read (default: all)",
    ),
    CommandOption(
        name="--max-events-per-minute",
        type=int,
        default=300,
        metavar="N",
        about="maximum number of events in a minute; others wait (default 300)",
    ),
    CommandOption(
        name="--history",
        default="",
        metavar="FILE",
        about="record the use of devices in an SQLite file, for kubectl dra usage --history (default: not recorded)",
    ),
    CommandOption(
        name="--history-days",
        type=int,
        default=30,
        metavar="N",
        about="days for which it is kept (default 30)",
    ),
    CommandOption(
        name="--would-fit-after",
        type=int,
        default=30,
        metavar="SECONDS",
        about="seconds for which the scheduler refuses a pod that fits before the alarm is raised (default 30)",
    ),
    CommandOption(
        name="--answers",
        choices=("on", "off"),
        default="on",
        about="answer questions of users at --secure-port, within the rights of each (default on)",
    ),
    CommandOption(
        name="--questions-per-minute",
        type=int,
        default=60,
        metavar="N",
        about="maximum number of questions of one user in a minute (default 60)",
    ),
    CommandOption(
        name="--kubernetes-version",
        type=release,
        default="",
        metavar="1.N",
        about="release whose rules apply (default: the server's)",
    ),
    CommandOption(
        name="--feature-gates",
        table=True,
        default="",
        metavar="A=true,B=false",
        about="feature gates (default: those that the server reports at /metrics, else the release's defaults)",
    ),
)
CONTROLLERS: Final = (
    CommandOption(
        name="--controllers",
        default="*",
        metavar="LIST",
        about="controllers to run: names, * for those on by default, -NAME to exclude one (default *)",
    ),
    CommandOption(
        name="--cluster-signing-cert-file",
        type=Path,
        metavar="FILE",
        about="authority that signs certificates requested through the API (default: none are signed)",
    ),
    CommandOption(name="--cluster-signing-key-file", type=Path, metavar="FILE", about="key of that authority"),
    CommandOption(
        name="--use-service-account-credentials",
        type=None,
        about="run each controller as its own service account in kube-system",
    ),
)
SCHEDULER: Final = (
    CommandOption(
        name="--config", type=Path, metavar="FILE", about="KubeSchedulerConfiguration (profiles, plugins, lease)"
    ),
)
NODE: Final = (
    CommandOption(name="--node-name", aliases=("--node",), required=True, metavar="NAME", about="name of the node"),
    CommandOption(
        name="--root-dir",
        type=Path,
        metavar="DIR",
        about="kubelet directory (default: in the data directory)",
    ),
)
"""Options of everything that runs on one node."""
DRIVER_NODE: Final = (
    msgspec.structs.replace(
        NODE[0],
        required=False,
        default="",
        about="name of the node (default: $NODE_NAME, else the only node of the cluster)",
    ),
    NODE[1],
)
"""The same, of a driver: the environment of a DaemonSet's pod describes its node too."""
NODE_AGENT: Final = (
    CommandOption(name="--address", metavar="IP", about="address to listen on (default: --node-ip, else 127.0.0.1)"),
    CommandOption(
        name="--node-ip",
        default="",
        metavar="IP",
        about="address at which the API server reaches it (default: the listening address, else this machine's)",
    ),
    CommandOption(name="--port", type=int, default=0, about="port for logs and exec (default: a free one)"),
    CommandOption(
        name="--client-ca-file",
        type=Path,
        metavar="FILE",
        about="authority that signs the API server's client certificate (default: the kubeconfig's)",
    ),
    CommandOption(
        name="--tls-cert-file",
        type=Path,
        metavar="FILE",
        about="serving certificate of the node (default: one that it makes)",
    ),
    CommandOption(name="--tls-private-key-file", type=Path, metavar="FILE", about="key of --tls-cert-file"),
    CommandOption(
        name="--rotate-certificates",
        type=None,
        about="renew the client certificate for the API server before it expires (in ROOT_DIR/pki)",
    ),
    CommandOption(
        name="--rotate-server-certificates",
        type=None,
        about="renew the serving certificate; its requests wait for kubectl certificate approve",
    ),
    CommandOption(name="--runtime", choices=NODE_RUNTIMES, default="auto", about="how containers run"),
    CRI_SOCKET,
    POD_NETWORK,
    *(
        CommandOption(
            name=f"--{whose}-reserved",
            default="",
            metavar="NAME=QUANTITY,…",
            about=f"resources reserved for {what}: cpu, memory, ephemeral-storage, pid",
        )
        for whose, what in (("kube", "the node agent and the container runtime"), ("system", "the system"))
    ),
    CommandOption(
        name="--keep-containers",
        type=None,
        about="keep containers running when the agent stops; the next agent finds them within ten minutes",
    ),
    CommandOption(
        name="--healthz-bind-address",
        default="127.0.0.1",
        metavar="IP",
        about="address of --healthz-port (default 127.0.0.1)",
    ),
    CommandOption(
        name="--healthz-port",
        type=int,
        default=0,
        metavar="PORT",
        about="port for /healthz, /livez, /readyz in plain HTTP (a kubelet uses 10248; default 0: none)",
    ),
)
DRIVER_CONTROL: Final = (
    CommandOption(
        name="--node-name",
        aliases=("--node",),
        default="node-0",
        metavar="NAME",
        about="name of the node (default node-0)",
    ),
    SELECTED,
    DATA_DIR,
    CommandOption(name="--root-dir", type=Path, metavar="DIR", about="kubelet directory (default: the node's)"),
    CommandOption(
        name="--driver-name",
        default="",
        metavar="NAME",
        about="name of the driver (default: the controllable one on the node)",
    ),
)
"""Options that select the driver that is controlled."""
DRIVER_PROCESS: Final = (
    CommandOption(
        name="--module",
        default="",
        metavar="MODULE:DRIVER",
        about="your own driver: a class, or a function that returns one (default: the example driver)",
    ),
    CommandOption(
        name="--driver-config",
        type=Path,
        metavar="FILE",
        about="configuration that is passed to the driver of --module",
    ),
    CommandOption(
        name="--driver-root",
        type=Path,
        metavar="DIR",
        about="directory of the kernel driver's libraries and programs, for the NVIDIA driver (default: searched)",
    ),
    SELECTED,
    DATA_DIR,
    CommandOption(
        name="--pod-uid",
        default="",
        metavar="UID",
        about="UID of its pod: lets another instance run beside it in a rolling update",
    ),
    CommandOption(
        name="--http-endpoint",
        default="",
        metavar="ADDRESS:PORT",
        about="address for /metrics, /healthz, /livez, /readyz (default: none)",
    ),
)
"""Options of a driver in a process of its own."""
ENROLMENT: Final = (
    SELECTED,
    DATA_DIR,
    CommandOption(name="--node-name", required=True, metavar="NAME", about="name of the node"),
    CommandOption(
        name="--address",
        repeatable=True,
        metavar="IP",
        about="address of the node (repeatable; default 127.0.0.1)",
    ),
    CommandOption(name="--to", type=Path, metavar="DIR", about="directory for the files (default: ./NAME)"),
    CommandOption(
        name="--server",
        repeatable=True,
        metavar="URL",
        about="address at which the node reaches an API server (repeatable: the node changes to another one when a "
        "server fails, also before it has joined; default: that of this server)",
    ),
)
"""Options of the files with which a node joins."""
CDI_DIR: Final = CommandOption(
    name="--cdi-dir", type=Path, metavar="DIR", about="directory for CDI documents (default: in the root directory)"
)
DRIVERNAME: Final = CommandOption(
    name="--drivername",
    default="test-driver.cdi.k8s.io",
    metavar="NAME",
    about="name of the driver (default test-driver.cdi.k8s.io)",
)
CLASSIC_RELEASE: Final = CommandOption(
    name="--kubernetes-version",
    type=release,
    default=DEFAULT_CLASSIC,
    metavar=f"{CLASSIC_RELEASES[0]}…{CLASSIC_RELEASES[-1]}",
    about=f"release of the cluster (default {DEFAULT_CLASSIC}; older ones behave like it)",
)
CLASSIC_COMMON: Final = (
    KUBECONFIG,
    CommandOption(
        name="--v",
        aliases=("-v",),
        type=int,
        default=0,
        metavar="LEVEL",
        about="verbosity, as of Kubernetes' programs: from 4 on everything is logged",
    ),
    CommandOption(
        name="--feature-gates",
        default="",
        metavar="A=true,…",
        about="gates of the logging in Kubernetes' program; without effect",
    ),
)
"""Options before the name of the program, as Kubernetes' test driver takes them."""
CLASSIC_CONTROLLER: Final = (
    CommandOption(
        name="--resource-config",
        type=Path,
        metavar="FILE",
        about="JSON with NodeLocal, Nodes, MaxAllocations, Shareable, DontSetReservedFor; options override it",
    ),
    CommandOption(name="--node-local", type=None, about="give each node its own resources"),
    CommandOption(name="--nodes", default="", metavar="A,B", about="nodes that have resources (default: all)"),
    CommandOption(
        name="--max-allocations",
        type=int,
        default=0,
        metavar="N",
        about="number of allocated claims at a time, per node or in the cluster (default 0: no limit)",
    ),
    CommandOption(name="--shareable", type=None, about="let any number of pods share an allocated claim"),
    CommandOption(name="--class-parameters", default="", metavar="A=B,…", about="parameters of classes without any"),
    CommandOption(
        name="--workers",
        type=int,
        default=10,
        metavar="N",
        about="number of claims handled at the same time (default 10)",
    ),
)
"""Options of the classic test driver's controller."""


# --- flags as Go's programs take them

_COMMON: Final = """
add-dir-header! alsologtostderr! log-backtrace-at log-dir log-file log-file-max-size log-flush-frequency
log-json-info-buffer-size log-json-split-stream! log-text-info-buffer-size log-text-split-stream! logtostderr!
one-output! skip-headers! skip-log-headers! stderrthreshold vmodule profiling! contention-profiling!
show-hidden-metrics-for-version allow-metric-labels allow-metric-labels-manifest disabled-metrics emulated-version
emulation-forward-compatible! min-compatibility-version kube-api-burst kube-api-content-type kube-api-qps
"""
_SERVING: Final = """
authentication-kubeconfig authentication-skip-lookup! authentication-token-webhook-cache-ttl
authentication-tolerate-lookup-failure! authorization-always-allow-paths authorization-kubeconfig
authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl cert-dir
disable-http2-serving! http2-max-streams-per-connection permit-address-sharing! permit-port-sharing!
tls-cipher-suites tls-min-version leader-elect-resource-lock leader-elect-resource-namespace
"""
_IGNORED: Final = {
    "apiserver": """
    allow-privileged! authorization-mode cert-dir default-not-ready-toleration-seconds
    default-unreachable-toleration-seconds default-watch-cache-size disable-http2-serving! enable-aggregator-routing!
    enable-bootstrap-token-auth! enable-garbage-collector! enable-logs-handler! enable-priority-and-fairness!
    endpoint-reconciler-type etcd-compaction-interval etcd-count-metric-poll-period etcd-db-metric-poll-interval
    etcd-healthcheck-timeout etcd-prefix etcd-readycheck-timeout event-ttl goaway-chance
    http2-max-streams-per-connection kubelet-preferred-address-types kubelet-timeout livez-grace-period
    lease-reuse-duration-seconds max-connection-bytes-per-sec min-request-timeout permit-address-sharing!
    permit-port-sharing! request-timeout service-account-lookup! service-cluster-ip-range service-node-port-range
    shutdown-delay-duration shutdown-send-retry-after! shutdown-watch-termination-grace-period storage-backend
    storage-media-type tls-cipher-suites tls-min-version watch-cache! watch-cache-sizes
    """,
    "scheduler": f"{_SERVING} pod-max-in-unschedulable-pods-duration",
    "controller-manager": f"""
    {_SERVING} allocate-node-cidrs! attach-detach-reconcile-sync-period cidr-allocator-type cloud-config cloud-provider
    cluster-cidr cluster-name configure-cloud-routes! controller-start-interval enable-dynamic-provisioning!
    enable-garbage-collector! enable-hostpath-provisioner! min-resync-period node-cidr-mask-size
    node-cidr-mask-size-ipv4 node-cidr-mask-size-ipv6 route-reconciliation-period service-cluster-ip-range
    """,
    "node": """
    authentication-token-webhook! authorization-mode cert-dir cgroup-driver cgroup-root cgroups-per-qos!
    cloud-config cloud-provider cluster-dns cluster-domain cpu-manager-policy enable-controller-attach-detach!
    enable-debugging-handlers! enable-server! enforce-node-allocatable fail-swap-on! hairpin-mode
    image-gc-high-threshold image-gc-low-threshold make-iptables-util-chains! max-open-files memory-manager-policy
    node-status-max-images node-status-update-frequency oom-score-adj pod-cidr pod-infra-container-image
    protect-kernel-defaults! register-node! resolv-conf runtime-cgroups seccomp-default! serialize-image-pulls!
    streaming-connection-idle-timeout sync-frequency system-cgroups tls-cipher-suites tls-min-version
    topology-manager-policy topology-manager-scope volume-plugin-dir volume-stats-agg-period
    """,
    "driver": "",
}
"""Flags of Kubernetes' programs that change nothing here; ``!`` marks those that take no value of their own."""
_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "false", "FALSE", "False"))
DEBUG_FROM: Final = 4
"""Smallest ``--v`` that logs what ``--log-level debug`` logs: the verbosity of «debug» in Kubernetes' conventions."""


def go_words(part: str, options: Iterable[CommandOption], words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Rewrite a command line of a Kubernetes program for our parser. Return its words, and the flags without effect.

    Go's programs take ``--flag=false``, ``-v=4`` and underscores in names. A later value replaces an earlier one.

    Raises:
        InvalidOption: a flag that is on or off has another value, or ``--v`` is no number.
    """
    switches = {option.name for option in options if option.type is None}
    takes_value = _ignored(part)
    kept: list[str] = []
    ignored: list[str] = []
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        name = f"--{name[2:].replace('_', '-')}" if name.startswith("--") else name
        if name in ("-v", "--v"):
            kept += _level(value if equals else next(left, ""))
        elif name == "--logging-format":
            kept.append(f"--log-format={value if equals else next(left, '')}")
        elif name in takes_value:
            ignored.append(name)
            if takes_value[name] and not equals:
                next(left, None)
        elif name in switches and equals:
            kept = [one for one in kept if one != name] + _switch(name, value)
        else:
            kept.append(f"{name}{equals}{value}")
    return kept, ignored


def _ignored(part: str) -> dict[str, bool]:
    """Return the ignored flags of a part, and whether each takes a value."""
    names = f"{_COMMON} {_IGNORED[part]}".split() if part in _IGNORED else []
    return {f"--{name.rstrip('!')}": not name.endswith("!") for name in names}


def _switch(name: str, value: str) -> list[str]:
    if value not in _TRUE | _FALSE:
        raise InvalidOption(f"{name} must be true or false, got {value!r}")
    return [name] if value in _TRUE else []


def _level(value: str) -> list[str]:
    if not value.isdecimal():
        raise InvalidOption(f"--v must be a whole number, got {value!r}")
    return ["--log-level=debug"] if int(value) >= DEBUG_FROM else []
