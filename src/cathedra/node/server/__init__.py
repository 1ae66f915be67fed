"""What the node agent serves.

Logs and exec over HTTP (`app`, `httpserver`), commands over WebSockets (`remotecommand`), and who holds which devices
over gRPC (`podresources`).
"""
