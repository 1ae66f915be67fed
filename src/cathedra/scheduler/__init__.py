"""kube-scheduler's framework in small, with DynamicResources."""
