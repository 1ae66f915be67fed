"""What a container runtime calls while it makes a container: small programs on the standard library alone.

A driver names them in its CDI documents, for what such a document cannot say itself: on which CPUs the container runs
(`cpuset`), and which interface moves into its network namespace (`netns`). The runtime gives the state of the container
on the standard input (OCI runtime specification, hooks of the kind createRuntime).
"""
