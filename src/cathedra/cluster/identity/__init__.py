"""Users of a cluster's parts: permissions, credentials, and addresses of the API server.

`permissions` installs the roles of parts and drivers, `credentials` writes kubeconfigs and the files that a node on
another machine needs to join, and `reach` computes the addresses at which the API server is reached.
"""
