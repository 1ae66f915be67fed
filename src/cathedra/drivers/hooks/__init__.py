"""Hooks that a container runtime runs while it creates a container: small programs on the standard library alone.

A driver names them in its CDI documents, for what such a document cannot express: the CPUs of the container (`cpuset`),
and the interface that moves into its network namespace (`netns`). The runtime passes the state of the container on
standard input (OCI runtime specification, createRuntime hooks).
"""
