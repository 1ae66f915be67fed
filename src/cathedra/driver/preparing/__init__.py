"""What happens between the node agent's call and the driver's answer, and what is left on disk afterwards.

In the order of a call: `service` (reads the claims, guards, calls the driver), `lock` (one call at a time, also between
two processes), `checkpoint` (which claims are prepared, over restarts), `specs` (CDI files), `metadata` (device
metadata files), `status` (what the driver says about devices in the claim).
"""
