"""The node's servers: the kubelet's HTTPS API, and pod resources over gRPC.

`app` authorizes and routes requests, with certificates of `tls`. `streams` serves exec, attach and port-forward: over
WebSockets (`remotecommand`) or SPDY (with the channels of `bytechannel`), and `portforward` connects to the ports of
pods. `podresources` lists the devices of pods.
"""
