"""The parts composed: a whole cluster in one process, or each part alone.

`config` and `partconfig` hold the options (`invalidoption` refuses them); `data` is the cluster on disk, `identity` its
users. `cluster` composes all `parts` in one process, `standalone` and `nodeparts` run one part beside an API server
elsewhere, and `process` starts and stops either. `serving` opens the API server of a data directory, `manifests`
applies what the user wrote, `draining` empties a node, `views` show what there is.
"""
