"""What a pod's containers are given."""
