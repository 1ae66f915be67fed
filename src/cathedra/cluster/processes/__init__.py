"""A cluster in several processes: the API server and its supervision in the first, the other parts in children.

`order` is what a child is told to run and the tokens of the users that its parts are, `channel` the line between the
two over which it is started, asked and ended, `child` the program of a child, and `supervisor` starts children, starts
them again when they end, and speaks for the nodes in them. The API itself they reach over the local binary transport
(`cathedra.client.local`).
"""
