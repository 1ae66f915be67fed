"""Directories, volumes and environment of a pod's containers.

`volumes` creates the pod's volumes in its `directories`, and writes the files of projected volumes, with their tokens
and owners. `launch` combines the variables of a container with mounts and resources into its specification. Both read
what they refer to through `references`.
"""
