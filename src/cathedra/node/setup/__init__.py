"""What a pod's containers are given when they start.

`volumes` makes the pod's volumes in its `directories` (`payload` writes files, `tokens` gets tokens, `ownership` says
whose they are) and `mounts` says where a container sees them. `environment` collects its variables; both take what they
need from `references` and `nodefacts`. `resources` says how much of the node a container gets, and `launch` puts it all
together for the runtime.
"""
