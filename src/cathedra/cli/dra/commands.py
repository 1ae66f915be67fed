"""The commands of ``kubectl dra``, in the order of its help: a command is a module of this package and a line here."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["COMMANDS", "DraCommand"]


class DraCommand(NamedTuple):
    """A command: its name, which is also its module's, what it is for, and examples."""

    name: str
    purpose: str
    examples: tuple[tuple[str, str], ...]
    """What is asked, and the arguments that ask it."""


COMMANDS: Final = (
    DraCommand(
        "explain",
        "explain why a pod, claim or workload is pending, or show what it has",
        (
            ("why is this pod pending?", "explain pod/train-0 -n team-a"),
            ("why does this deployment not come up?", "explain deployment/inference"),
            ("would this manifest fit, and where?", "explain -f train.yaml"),
            ("why not on that node?", "explain pod/train-0 --node node-3"),
            ("the same, from a dump of the cluster", "explain pod/train-0 --dump dump.yaml"),
        ),
    ),
    DraCommand(
        "devices",
        "list devices, the claims that hold them, and totals",
        (
            ("all devices, with totals by driver, class, node and namespace", "devices"),
            ("which devices of a class are free?", "devices --class gpu.example.com --free"),
            ("one node, with all attributes", "devices --node node-3 -o wide"),
            ("keep looking", "devices -w"),
            ("for programs", "devices -o json"),
        ),
    ),
    DraCommand(
        "simulate",
        "simulate changes on a copy: apply, scale, add nodes, drain, taint",
        (
            ("would these pods be placed, where, and how many more?", "simulate -f train.yaml"),
            ("can this node be drained?", "simulate --drain node-3"),
            ("what do four more nodes bring?", "simulate --replicas deployment/web=40 --add-nodes 4=node-0"),
            ("would it fit on hardware that we do not have?", "simulate -f train.yaml --add-nodes 4=h100-8"),
            (
                "which pods does a broken device evict?",
                "simulate --taint gpu.example.com/node-0/gpu-1=broken:NoExecute",
            ),
            ("in CI: exit code 1 if something stays pending", "simulate -f k8s/ --dump cluster.yaml -o json"),
        ),
    ),
    DraCommand(
        "lint",
        "check manifests before a server or a device refuses them",
        (
            ("all manifests of a directory", "lint k8s/"),
            ("the output of Helm or kustomize", "lint - < <(helm template chart)"),
            ("does it fit the devices of my cluster?", "lint k8s/ --cluster"),
            ("the same, from a dump of the cluster", "lint k8s/ --against dump.yaml"),
            ("as SARIF, for a code host", "lint k8s/ -o sarif > lint.sarif"),
        ),
    ),
    DraCommand(
        "match",
        "show which devices a selector selects, fails on, or nearly selects",
        (
            ("all devices of the cluster", "match 'device.driver == \"gpu.example.com\"'"),
            ("from a dump, of one driver", "match 'EXPRESSION' --dump dump.yaml --driver gpu.example.com"),
            ("for programs", "match 'EXPRESSION' -o json"),
        ),
    ),
    DraCommand(
        "repl",
        "evaluate expressions on devices interactively, with completion",
        (
            ("on the devices of the cluster", "repl"),
            ("on the devices of a dump", "repl --dump dump.yaml"),
            ("from a script", "repl --dump dump.yaml < expressions.txt"),
        ),
    ),
    DraCommand(
        "convert",
        "convert manifests to another API version, or from device plugins to claims",
        (
            ("to v1, for Kubernetes 1.34 and later", "convert claims.yaml"),
            ("all files of a directory, in place, for 1.33", "convert k8s/ --to v1beta2 -i"),
            ("from nvidia.com/gpu: 2 to claims", "convert deployment.yaml --from-device-plugin"),
        ),
    ),
    DraCommand(
        "rights",
        "print the ClusterRole that reading a cluster needs",
        (("create it", "rights | kubectl apply -f -"),),
    ),
)
