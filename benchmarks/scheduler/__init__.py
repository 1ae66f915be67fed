"""Pods per second from creation to binding: API server with a durable store, resource claim controller, scheduler.

The workloads carry the names of Kubernetes' scheduler_perf and have its shape (docs/spec/scheduling.md §19); nodes are
objects without an agent. Everything runs in one process and on one event loop, set up as `cathedra up` sets up its
own. Kubernetes' figures are its own control plane's on two cores of a machine of this kind.

    python -m benchmarks scheduler
    python -m benchmarks scheduler --against KUBECONFIG --only 2000pods_100nodes
    python -m benchmarks.scheduler [NAME ...]

With a kubeconfig, the same pods go to that cluster: to another Kubernetes, or to a `cathedra up` with several
processes. Without one, the processor time of the process is printed as well; on a busy machine only that can be
compared.
"""

from __future__ import annotations

from benchmarks.scheduler.measuring import alone, clear_namespace, measure, rows
from benchmarks.scheduler.workloads import WORKLOADS, Workload

__all__ = ["WORKLOADS", "Workload", "alone", "clear_namespace", "measure", "rows"]
