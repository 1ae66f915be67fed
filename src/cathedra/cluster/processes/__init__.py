"""A cluster in several processes: API server, controllers and supervision in the first, the other parts in children.

`order` is what a child is told to run and the tokens of the users that its parts are, `channel` the line between the
two over which it is started, asked and ended, `child` the program of a child, and `supervisor` starts children, starts
them again when they end, and speaks for the nodes in them. The scheduler's child has an API server of its own on the
first one's store; others reach the first one's over the local binary transport (`cathedra.client.local`).
"""
