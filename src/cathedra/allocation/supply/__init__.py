"""Supply of devices.

`inventory` (slices and taint rules) and `ledger` (held devices) follow events, with `snapshots` for cheap snapshots of
both. `devices` are the parts of slices, `nodes` selects the nodes on which they can be used, and `pools` collects the
devices that one node can reach.
"""
