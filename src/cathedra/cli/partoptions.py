"""Options of the parts that run alone, of their drivers, and of the files with which a node joins.

Standard library only, as `cathedra.cli.options`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cathedra.cli.options import CRI_SOCKET, DATA_DIR, NODE_RUNTIMES, SELECTED, CommandOption
from cathedra.releases.table import CLASSIC_RELEASES, DEFAULT_CLASSIC

__all__ = [
    "CDI_DIR",
    "CLASSIC_CONTROLLER",
    "CLASSIC_RELEASE",
    "COMPONENT",
    "CONTROLLERS",
    "DRIVERNAME",
    "DRIVER_CONTROL",
    "DRIVER_PROCESS",
    "ENROLMENT",
    "KUBECONFIG",
    "LEADER_ELECT",
    "NODE",
    "NODE_AGENT",
    "SCHEDULER",
]

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
)
"""Options of scheduler and controller manager."""
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
    default=DEFAULT_CLASSIC,
    metavar=f"{CLASSIC_RELEASES[0]}…{CLASSIC_RELEASES[-1]}",
    about=f"release of the cluster (default {DEFAULT_CLASSIC}; older ones behave like it)",
)
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
