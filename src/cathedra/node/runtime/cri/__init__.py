"""Containers by containerd or CRI-O, asked over gRPC as a kubelet asks them.

`endpoint` is the connection to the runtime's socket, and says what the runtime can do. `sandboxes` keeps a pod's
sandbox, `images` looks for images and has them pulled. `configuration` describes sandboxes and containers in the
runtime's messages, with the devices that `devices` adds where the runtime itself resolves none, the `user` of the image
and the volumes' parts of `pins`. `runtime` starts containers, `following` notices their ends, and `logs` begins logs
anew. `streaming` connects to the servers that exec, attach and port-forward are told of.
"""
