"""Rules of the device kinds (spec: api.md, section 3).

`device_names`, `expressions` and `capacity` check what all of them are made of. A claim is read by `claims`, what
became of it by `claim_status`; a slice by `slices`, which asks `devices` about each device (with `binding`, `counters`
and `node_resources`); `classes` holds the rules of classes, taint rules and questions about pools.
"""
