"""A driver for NVIDIA GPUs, by NVML: whole GPUs, and their MIG partitions, made when a claim gets them.

`nvml` asks the library what there is; `devices` makes devices, counters and attributes of the answers, named as those
of NVIDIA's own driver; `partitions` makes and removes MIG devices; `edits` says what a container needs, as NVIDIA's
toolkit does; `monitor` listens to errors, which become taints and health; `driver` puts them together.

    cathedra driver --module cathedra.drivers.nvidia:NvidiaDriver --node node-0

It needs ``nvidia-ml-py`` and a GPU with its kernel driver.
"""

from __future__ import annotations

from cathedra.drivers.nvidia.driver import NvidiaDriver

__all__ = ["NvidiaDriver"]
