"""Bootstrap tokens, with which nodes join: `signing` signs the cluster's description, so that a node can trust it
before it can verify certificates; `cleaning` deletes expired tokens.
"""
