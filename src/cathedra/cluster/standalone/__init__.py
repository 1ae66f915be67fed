"""Parts that run alone, beside an API server elsewhere.

`config` holds their options. `controlplane` runs an API server, scheduler or controllers; `node` a node agent or a
driver, and renews the node's certificates; `fabric` the controller of a fabric's devices; `classicprograms` the test
driver of 1.26 to 1.31.
"""
