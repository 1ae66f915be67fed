"""Cathedra: Kubernetes Dynamic Resource Allocation, whole, in Python.

The packages, in the order in which a claim meets them: `cathedra.api` (the objects), `cathedra.apiserver` (stores and
serves them), `cathedra.controllers` (make claims from templates and clean up), `cathedra.scheduler` with
`cathedra.allocation` and `cathedra.cel` (find node and devices), `cathedra.node` (runs the pod), `cathedra.driver`
(publishes and prepares devices), `cathedra.cluster` (all of it in one process).
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
