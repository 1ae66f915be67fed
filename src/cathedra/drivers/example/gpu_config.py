"""What a claim or a class may ask of a simulated GPU: how it is shared between containers.

The kind is that of the reference example driver, so that its manifests work unchanged
(docs/spec/driver-sdk.md §17.3).

    apiVersion: gpu.resource.example.com/v1alpha1
    kind: GpuConfig
    sharing:
      strategy: TimeSlicing
      timeSlicingConfig:
        interval: Long
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["API_VERSION", "KIND", "GpuConfig", "Sharing", "SpacePartitioning", "TimeSlicing"]

API_VERSION = "gpu.resource.example.com/v1alpha1"
KIND = "GpuConfig"


class TimeSlicing(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Containers take turns."""

    interval: Literal["Default", "Short", "Medium", "Long"] = "Default"


class SpacePartitioning(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Each container has a part of the GPU."""

    partition_count: int = 1


class Sharing(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One of the two strategies, with its own settings."""

    strategy: Literal["TimeSlicing", "SpacePartitioning"] = "TimeSlicing"
    time_slicing_config: TimeSlicing | None = None
    space_partitioning_config: SpacePartitioning | None = None

    def __post_init__(self) -> None:
        if self.time_slicing_config is not None and self.space_partitioning_config is not None:
            raise ValueError("only one of timeSlicingConfig and spacePartitioningConfig may be set")
        if self.strategy == "TimeSlicing" and self.space_partitioning_config is not None:
            raise ValueError("spacePartitioningConfig needs the strategy SpacePartitioning")
        if self.strategy == "SpacePartitioning" and self.time_slicing_config is not None:
            raise ValueError("timeSlicingConfig needs the strategy TimeSlicing")
        if self.space_partitioning_config is not None and self.space_partitioning_config.partition_count < 0:
            raise ValueError("partitionCount must not be negative")


class GpuConfig(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The parameters as a whole. Without any, a GPU is shared by time slicing in the default interval."""

    sharing: Sharing = Sharing()

    def environment(self, prefix: str) -> dict[str, str]:
        """How a container sees it: variables that begin with ``prefix``."""
        sharing = self.sharing
        variables: dict[str, str] = {f"{prefix}_SHARING_STRATEGY": sharing.strategy}
        if sharing.strategy == "TimeSlicing":
            variables[f"{prefix}_TIMESLICE_INTERVAL"] = (sharing.time_slicing_config or TimeSlicing()).interval
        else:
            partitions = (sharing.space_partitioning_config or SpacePartitioning()).partition_count
            variables[f"{prefix}_PARTITION_COUNT"] = str(partitions)
        return variables
