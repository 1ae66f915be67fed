"""The API server's end of the local binary transport (`cathedra.client.local`), for trusted processes of one cluster.

`listener` opens the socket and lets in processes of the same user, `session` takes messages off one connection and puts
answers and events on it, `requests` turns a message into a verb, and `records` tells metrics and audit of it.
"""
