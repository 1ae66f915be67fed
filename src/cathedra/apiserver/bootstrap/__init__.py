"""The objects that a cluster has before the first request.

The system's `namespaces` and the default `roles`; and the objects that the server keeps while it runs (`keeping`): its
own Service (`kubernetesservice`), public facts about authentication and the cluster (`clusterinfo`), and those of
priority and fairness (`flowcontrol`, `danglingschemas`). `expiry` removes old events and changes.
"""
