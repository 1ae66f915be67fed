"""Resources of pods and containers on the node, and their enforcement.

In the order of their use: `nodefacts` (what the node has), `pods` and `containers` (requests and limits of a pod and
of its containers, including those of claims), and `cgroups` (the cgroups of pods).
"""
