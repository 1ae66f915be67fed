"""A driver for network interfaces: those that the machine has, and new ones made on top of them.

`config` says which are offered; `inventory` finds them and what the machine tells of each, by the names of dranet;
`parameters` is what a claim may ask of its interface; `links` speaks to the kernel; `driver` puts them together. A hook
of the container runtime moves the interface into the pod's network namespace (`cathedra.drivers.hooks.netns`), and it
comes back when the claim is unprepared.

    cathedra driver --module cathedra.drivers.net:NetDriver --driver-config net.yaml --node node-0
"""

from __future__ import annotations

from cathedra.drivers.net.driver import NetDriver

__all__ = ["NetDriver"]
