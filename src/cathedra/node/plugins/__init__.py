"""DRA drivers on this node: discovery, registration, calls, health, and cleanup.

`registration` watches the directory of registration sockets, and registers the drivers behind them in `registry`,
which also deletes the slices of drivers that are gone. `client` is the interface of a driver, implemented
over gRPC (`grpcclient`, with the handshake) or in the same process. `health` receives the health of devices.
"""
