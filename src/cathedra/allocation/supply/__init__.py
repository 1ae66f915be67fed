"""What there is: `inventory` (slices and taint rules) and `ledger` (what is held) follow events, with `shared_map` and
`changelog` for cheap snapshots; `devices` are what slices are taken apart into, `nodes` says where they can be used,
and `pools` puts together what one node sees."""
