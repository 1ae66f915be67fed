"""What a cluster or a dump of one says, read once into a `ClusterState`, the one input of all tools.

`kinds` lists what is read; `objects` makes typed objects of the newest version from what was written in any; `dumps`
reads files, `live` a running cluster (any Kubernetes from 1.32, or Cathedra); `state` is what comes out, with a note
for everything that could not be read and what is therefore not known; `rights` is the role that reading needs.
"""
