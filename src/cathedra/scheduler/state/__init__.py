"""What the scheduler knows: pods (`pod_info`), what they ask for (`resources`), nodes with the pods on them
(`node_info`), all of them together with the pods assumed to be there (`cache`), and one cycle's view (`snapshot`)."""
