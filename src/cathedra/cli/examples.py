"""Examples of each command, which the parser prints below its help.

They are a module of their own, loaded for a help alone. A test parses each line with the parser of its command.
"""

from __future__ import annotations

from typing import Final

__all__ = ["EXAMPLES", "examples"]


def examples(program: str) -> str:
    """Return the section of examples for the help of ``program``; empty if it has none."""
    # kubectl dra is cathedra dra under another name.
    known = EXAMPLES.get(program.replace("kubectl dra", "cathedra dra", 1))
    if known is None:
        return ""
    shown = (f"  # {purpose}\n  {f'{program} {words}'.rstrip()}\n" for purpose, words in known)
    return "\nexamples:\n" + "".join(shown)


EXAMPLES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "cathedra": (
        ("show what a cluster with simulated GPUs does", "demo"),
        ("start a cluster of two nodes for kubectl", "up --detach --nodes 2 --gpus 4"),
        ("see nodes, devices and pods, and why pods wait", "status"),
    ),
    # --- clusters
    "cathedra up": (
        ("two nodes with four simulated GPUs each, in the background", "--detach --nodes 2 --gpus 4"),
        (
            "a second cluster, with NVIDIA's devices and another release",
            "dev --profile h100-8 --kubernetes-version 1.34",
        ),
        ("a thousand simulated nodes", "--runtime simulated --nodes 1000"),
    ),
    "cathedra demo": (
        ("run the demonstration and remove its cluster", ""),
        ("keep the cluster, and continue with kubectl", "--keep"),
    ),
    "cathedra down": (
        ("stop the cluster of kubectl's current context", ""),
        ("stop the cluster dev; its objects are kept", "dev"),
    ),
    "cathedra delete": (
        ("remove the cluster of kubectl's current context", ""),
        ("remove the cluster dev with all objects", "dev"),
    ),
    "cathedra kubeconfig": (
        ("let kubectl use the cluster dev", "dev > dev.kubeconfig"),
        ("credentials of the scheduler, to run it elsewhere", "--for scheduler > scheduler.kubeconfig"),
    ),
    "cathedra backup": (
        ("back up the running cluster", "monday.tar"),
        ("back up the cluster dev", "dev.tar --cluster dev"),
    ),
    "cathedra restore": (
        ("return to a backup", "monday.tar"),
        ("copy a cluster into a new data directory", "monday.tar --data-dir /srv/copy"),
    ),
    "cathedra verify": (
        ("verify the current cluster", ""),
        ("remove damaged rows of a stopped cluster", "dev --remove-damaged"),
    ),
    "cathedra enrol": (
        ("files for a node on this machine, in ./node-5", "--node-name node-5"),
        ("files for a node on another machine", "--node-name gpu-1 --address 192.0.2.7 --to gpu-1.files"),
    ),
    "cathedra list": (
        ("all clusters", ""),
        ("for programs", "-o json"),
    ),
    "cathedra status": (
        ("the current cluster", ""),
        ("one namespace of the cluster dev, after every change", "dev -n team-a --watch"),
    ),
    "cathedra logs": (
        ("the log of the current cluster", ""),
        ("new lines of its scheduler", "scheduler --follow"),
    ),
    # --- tools
    "cathedra profiles": (
        ("all profiles", ""),
        ("one profile, as a file to change", "h100-8 -o yaml > mine.yaml"),
    ),
    "cathedra profiles import": (
        ("a profile of a real node", "--node worker-1 --file worker.yaml dump.yaml"),
        ("from a pipe", "--node worker-1 --name worker -"),
    ),
    "cathedra completion": (
        ("in every bash", "bash > ~/.local/share/bash-completion/completions/cathedra"),
        ("in every fish", "fish > ~/.config/fish/completions/cathedra.fish"),
    ),
    "cathedra cdi": (
        ("all devices of this machine's documents", "list"),
        ("check the documents of a directory", "validate /etc/cdi"),
    ),
    "cathedra cdi list": (
        ("the documents in /etc/cdi and /var/run/cdi", ""),
        ("changes in another directory", "--watch --cdi-dir ./documents"),
    ),
    "cathedra cdi validate": (
        ("one document", "lamps.yaml"),
        ("the output of a generator", "- < generated.json"),
    ),
    "cathedra cdi resolve": (
        ("what a device adds to a container", "lamps.example.com/lamp=left"),
        ("two devices together", "lamps.example.com/lamp=left lamps.example.com/lamp=right"),
    ),
    "cathedra cdi apply": (
        ("a container with a device", "lamps.example.com/lamp=left --spec config.json > new.json"),
        ("the same, from a pipe", "lamps.example.com/lamp=left < config.json"),
    ),
    # --- drivers
    "cathedra driver-control": (
        ("break a device, and evict the pods that use it", "taint gpu-0 example.com/broken=yes:NoExecute"),
        ("report a device as unhealthy", "health gpu-0 Unhealthy 'fan stopped' --node node-1"),
        ("let all calls to prepare claims fail", "fail NodePrepareResources"),
        ("return to the first state", "reset"),
    ),
    "cathedra driver-new": (
        ("a driver in ./lamp", "lamp.example.com"),
        ("in another directory", "lamp.example.com --directory drivers/lamp"),
    ),
    "cathedra driver-manifest": (
        ("install a driver", "lamp:Lamps --image lamps:1 | kubectl apply -f -"),
        ("in a namespace of its own", "lamp:Lamps --image lamps:1 --namespace lamps"),
    ),
    "cathedra driver-webhook": (
        ("in a cluster, behind a Service", "lamp:Lamps --service dra-drivers/lamps"),
        ("on this machine", "lamp:Lamps --host 127.0.0.1 --listen 127.0.0.1:0"),
    ),
    "cathedra driver-fabric": (
        ("for the cluster of kubectl's context", "switch:Switch"),
        ("with a configuration", "switch:Switch --driver-config ports.yaml"),
    ),
    "cathedra driver-check": (
        (
            "start a driver, with an API server of its own, and end it in every way",
            "-- python examples/drivers/minimal.py",
        ),
        ("examine a driver on a node of a cluster, as root, as its kubelet", "--kubeconfig node.conf --node worker-1"),
        (
            "simulate two nodes; write the certificate, a page and a badge",
            "--nodes 2 --html page.html --badge b.svg -- ./my-driver",
        ),
        ("also update from the previous version and back", "--upgrade-from ./my-driver-1.4 -- ./my-driver"),
        ("all checks and their sources", "--list"),
    ),
    "cathedra classic-test-driver": (
        ("allocate claims", "controller --max-allocations 4"),
        ("prepare them on a node", "kubelet-plugin --node-name node-0"),
    ),
    "cathedra classic-test-driver controller": (
        ("four claims at a time on each node", "--node-local --max-allocations 4"),
        ("claims that any number of pods share", "--shareable --resource-config a.json"),
    ),
    "cathedra classic-test-driver kubelet-plugin": (
        ("for a node of the current cluster", "--node-name node-0"),
        ("beside a kubelet", "--root-dir /var/lib/kubelet"),
    ),
    # --- parts alone
    "cathedra apiserver": (
        ("on this machine", "--data-dir ./alone"),
        ("one of several servers on the objects in etcd", "--data-dir ./second --store etcd://127.0.0.1:2379"),
    ),
    "cathedra scheduler": (
        ("one of several schedulers of a cluster", "--kubeconfig scheduler.kubeconfig --leader-elect"),
        ("with profiles and plugins of your own", "--config scheduler.yaml"),
    ),
    "cathedra mcp": (
        ("the cluster of the current context, followed live", ""),
        ("a dump", "--dump dump.json"),
    ),
    "cathedra advisor": (
        ("explain in events why pods and claims wait", "--kubeconfig advisor.kubeconfig --leader-elect"),
        ("one namespace, as metrics alone", "--namespace team-a --events off --secure-port 10261"),
    ),
    "cathedra controller-manager": (
        ("all controllers", "--kubeconfig manager.kubeconfig --leader-elect"),
        ("all but one", "--controllers '*,-job-controller' --leader-elect"),
    ),
    "cathedra node": (
        ("a node with the files of cathedra enrol", "--node-name n1 --kubeconfig n1/kubeconfig --root-dir ./root"),
        ("with containers of containerd", "--node-name worker-1 --runtime cri --root-dir /var/lib/kubelet"),
    ),
    "cathedra driver": (
        ("the example driver, with two simulated GPUs", "--node-name node-0 --gpus 2"),
        ("your driver, of lamp.py", "--node-name node-0 --module lamp:Lamps"),
    ),
    "cathedra simulate-faults": (
        ("twenty clusters, with figures in a file", "--seeds 20 --figures figures.json"),
        ("one seed again", "--seed 7 --hours 2"),
        ("the plan of a failure again", "--replay plan.json"),
    ),
    # --- kubectl dra
    "cathedra dra": (
        ("all pods that wait, and why", "explain -A"),
        ("all devices, and the claims that hold them", "devices"),
        ("whether a manifest would fit", "simulate -f train.yaml"),
    ),
    "cathedra dra explain": (
        ("all that waits, and why", "-A"),
        ("one pod", "pod/train-0 -n team-a"),
        ("a workload with its pods", "deployment/inference"),
        ("whether a manifest would fit, and where", "-f train.yaml"),
        ("the reasons on one node", "pod/train-0 --node node-3"),
        ("the same, from a dump of the cluster", "pod/train-0 --dump dump.json"),
    ),
    "cathedra dra devices": (
        ("all devices, with totals by driver, class, node and namespace", ""),
        ("free devices of a class", "--class gpu.example.com --free"),
        ("one node, with all attributes", "--node node-3 -o wide"),
        ("refresh after every change", "-w"),
        ("for programs", "-o json"),
    ),
    "cathedra dra usage": (
        ("devices in use, by namespace", "-A"),
        ("of one namespace, by class, for a spreadsheet", "-n team-a --by class -o csv"),
        ("device-hours of a week, from the history of an advisor", "-A --history advisor.db --since 7d"),
    ),
    "cathedra dra simulate": (
        ("where pods would be placed, and how many more fit", "-f train.yaml"),
        ("whether a node can be drained", "--drain node-3"),
        ("four more nodes, and a larger workload", "--replicas deployment/web=40 --add-nodes 4=node-0"),
        ("hardware that the cluster does not have", "-f train.yaml --add-nodes 4=h100-8"),
        ("the pods that a broken device evicts", "--taint gpu.example.com/node-0/gpu-1=broken:NoExecute"),
        ("the pods that a taint rule would evict", "-f rule.yaml"),
        ("the placement by another scheduler configuration", "-f train.yaml --scheduler-config scheduler.yaml"),
        ("in CI: exit code 1 if something stays pending", "-f k8s/ --dump cluster.yaml -o json"),
    ),
    "cathedra dra moves": (
        ("what has to move so that this pod fits", "--for pod/train-0 -n team-a"),
        ("room for two more such pods, from a dump", "-f train.yaml --count 2 --dump dump.json"),
        ("the least harm instead of the fewest moves", "--for pod/train-0 --prefer cheapest"),
        ("evict, step by step, as long as the cluster is as planned", "--for pod/train-0 --apply"),
    ),
    "cathedra dra defrag": (
        ("larger requests of every class, with at most eight moves", ""),
        ("of one class, with at most three, from a dump", "--class gpu.example.com --most 3 --dump dump.json"),
    ),
    "cathedra dra lint": (
        ("all manifests of a directory", "k8s/"),
        ("the output of Helm or kustomize", "- < <(helm template chart)"),
        ("against the devices of the cluster", "k8s/ --cluster"),
        ("the same, from a dump of the cluster", "k8s/ --dump dump.json"),
        ("as SARIF, for a code host", "k8s/ -o sarif > lint.sarif"),
    ),
    "cathedra dra map": (
        ("the cluster of the current context, followed live", ""),
        ("a dump", "--dump dump.json"),
    ),
    "cathedra dra match": (
        ("all devices of the cluster", "'device.driver == \"gpu.example.com\"'"),
        ("from a dump, of one driver", "'EXPRESSION' --dump dump.json --driver gpu.example.com"),
        ("for programs", "'EXPRESSION' -o json"),
    ),
    "cathedra dra repl": (
        ("on the devices of the cluster", ""),
        ("on the devices of a dump", "--dump dump.json"),
        ("from a script", "--dump dump.json < expressions.txt"),
    ),
    "cathedra dra convert": (
        ("to v1, for Kubernetes 1.34 and later", "claims.yaml"),
        ("all files of a directory, in place, for 1.33", "k8s/ --to v1beta2 -i"),
        ("from nvidia.com/gpu: 2 to claims", "deployment.yaml --from-device-plugin"),
    ),
    "cathedra dra rights": (
        ("create the role", "| kubectl apply -f -"),
        ("under another name", "--name dra-reader > role.yaml"),
    ),
}
"""Purpose and words of each example, by the command and its sub-commands."""
