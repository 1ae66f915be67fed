"""Kinds of nodes with their devices, as data: what vendors' DRA drivers publish, for simulations and tests.

A profile is one YAML file in ``data``. `model` is its form, `loading` finds and reads it, and makes the node, the
devices and the counters of one node of it, `masking` takes what identifies a machine out of devices that were read
from a cluster. What could not be confirmed about a vendor's devices stands in the profile and is shown with it.
"""

from cathedra.profiles.loading import (
    NodePool,
    expanded_pools,
    load_profile,
    node_capacity,
    node_labels,
    profile_names,
    read_profile,
)
from cathedra.profiles.model import HardwareProfile, ProfileError

__all__ = [
    "HardwareProfile",
    "NodePool",
    "ProfileError",
    "expanded_pools",
    "load_profile",
    "node_capacity",
    "node_labels",
    "profile_names",
    "read_profile",
]
