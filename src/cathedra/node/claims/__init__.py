"""Claims on this node: prepared before a pod's containers start, unprepared after they have ended.

`checkpoint` has the state of a prepared claim and stores it across restarts. `manager` resolves a pod's
claims, checks that the pod may use them, calls the drivers, and lists the CDI devices of a container.
"""
