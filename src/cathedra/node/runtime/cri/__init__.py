"""Containers by containerd or CRI-O, over the Container Runtime Interface (gRPC).

`endpoint` is the connection to the runtime's socket, with the runtime's features and its images. `sandboxes` creates
and finds the sandboxes of pods and pins the mounted parts of volumes. `configuration` encodes sandboxes and containers
as CRI messages, and applies CDI devices where the runtime does not. `runtime` starts containers, `following` detects
their ends and rotates their logs. `streaming` connects to the runtime's servers for exec, attach and port-forward.
"""
