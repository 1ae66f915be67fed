"""State of the cluster: pods and their requests (`pod_info`), nodes with the pods on them (`node_info`), all of them
with the pods assumed and nominated (`cache`), and the view of one cycle (`snapshot`)."""
