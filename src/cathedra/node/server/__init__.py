"""What the node agent serves.

Logs and exec over HTTP (`app`), commands over WebSockets (`remotecommand`), and who holds which devices
over gRPC (`podresources`).
"""
