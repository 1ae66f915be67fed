"""Classic device plugins (``v1beta1``) beside DRA: extended resources that no claim stands for.

`registration` takes plugins that come to the node's socket, `grpcclient` calls them in the words of `client`, and
`manager` knows their devices, gives them to containers and remembers that in `checkpoint`.
"""
