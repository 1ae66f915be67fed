"""What a cluster holds before the first request.

The system's `namespaces` and the default `roles`; and what the server keeps while it runs (`keeping`): the way to
itself (`kubernetesservice`), what others may know of authentication (`authenticationinfo`) and of the cluster
(`clusterinfo`), and the objects of priority and fairness (`flowcontrol`, `danglingschemas`).
"""
