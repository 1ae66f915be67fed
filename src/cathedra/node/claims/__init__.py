"""Claims on this node: prepared before a pod's containers start, unprepared after they have ended.

`claiminfo` is the state of a prepared claim, and `checkpoint` stores it across restarts. `manager` resolves a pod's
claims, checks that the pod may use them, calls the drivers, and lists the CDI devices of a container.
"""
