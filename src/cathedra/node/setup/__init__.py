"""Directories, volumes and environment of a pod's containers.

`volumes` creates the pod's volumes in its `directories`, and `payload` writes the files of projected volumes, with
their tokens and owners. `environment` collects the variables of a container; it and `volumes` read what they refer to
through `references`. `launch` combines all of it, with mounts and resources, into the specification of a container.
"""
