"""Preparing and unpreparing claims, and the files that this leaves on disk.

`service` reads the claims, checks them and calls the driver; `checkpoint` stores the prepared claims across restarts
and serializes calls, also between two processes; `specs` writes CDI and metadata files; `status` writes the device
status into the claim.
"""
