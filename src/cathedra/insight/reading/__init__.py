"""Reading of a cluster, or of a dump of one, into a `ClusterState`: the one input of all tools.

`state` lists the kinds that are read and holds the result, with a note for everything that could not be read. `dumps`
reads files and decodes objects of any served version into the newest one. `live` reads a running cluster: Cathedra, or
Kubernetes 1.32 and later.
"""
