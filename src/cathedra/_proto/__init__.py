"""Stubs generated from proto/ by tools/generate_protos.sh; import them lazily, gRPC is heavy."""
