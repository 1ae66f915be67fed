"""A driver for NVIDIA GPUs over NVML: whole GPUs, and MIG partitions that are created when a claim is prepared.

`nvml` calls the library; `devices` publishes devices, counters and attributes with the names of NVIDIA's own driver,
creates and deletes MIG devices, and computes the edits of containers as NVIDIA's toolkit does; `sharing` configures
time-slicing and MPS; `driver` implements the SDK's driver, and turns errors into taints and health.

    cathedra driver --module cathedra.drivers.nvidia:NvidiaDriver --node node-0

It needs ``nvidia-ml-py`` and a GPU with its kernel driver.
"""

from __future__ import annotations

from cathedra.drivers.nvidia.driver import NvidiaDriver

__all__ = ["NvidiaDriver"]
