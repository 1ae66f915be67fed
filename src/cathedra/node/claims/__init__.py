"""Claims on this node: prepared before a pod's containers start, unprepared after they have ended.

`devices` resolves a pod's claims, checks that the pod may use them, and lists the CDI devices of a container.
`claiminfo` is the state of a prepared claim, `checkpoint` stores it across restarts, and `manager` calls the drivers.
"""
