"""The Kubernetes API as a typed asynchronous client: transports, informers, work queue, events, leader election."""
