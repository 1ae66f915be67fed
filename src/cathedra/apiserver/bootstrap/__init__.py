"""The objects that a cluster has before the first request.

The default `roles`; and the objects that the server keeps while it runs (`keeping`): the system's namespaces, its own
Service, public facts about authentication and the cluster (`clusterobjects`), and those of
priority and fairness (`flowcontrol`, `danglingschemas`). `expiry` removes old events and changes.
"""
