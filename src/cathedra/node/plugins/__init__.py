"""Drivers on this node: how they are found, registered, called, watched, and missed.

`sockets` notices registration sockets, `registration` does the handshake, `registry` knows the driver instances that
came of it, `client` is what a driver looks like from here, with gRPC behind it (`grpcclient`) or without, `wiping`
removes the slices of drivers that are gone, `health` follows what drivers say of their devices.
"""
