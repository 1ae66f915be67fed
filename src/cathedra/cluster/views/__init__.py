"""Views of a cluster for commands: `overview` (nodes, devices, claims, pods), `waiting` (reasons of pending pods),
`wording` (counts as text).
"""
