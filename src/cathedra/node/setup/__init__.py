"""What a pod's containers are given when they start.

`volumes` makes the pod's files in its `directories` (`ownership` says whose they are), `environment` collects its
variables; both take what they need from `references` and `nodefacts`. `amounts` says how much of the node a container
gets, and `launch` puts it all together for the runtime.
"""
