"""Hard inputs against a fresh cluster, and what its other clients notice of them.

`target` starts a cluster and reads its memory, `client` sends what well-behaved clients do not send, `measuring` runs
one attack beside an independent client (`probe`). The other modules are the attacks, one for each family of inputs.

    python -m tools.attack                       # all of them, and a table
    python -m tools.attack --only session-lists

The exit status is 1 if an attack stalled ``/livez`` for more than a second, left more than 100 MiB in the cluster's
processes, or reached what it must not reach.
"""
