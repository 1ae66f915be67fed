"""CEL as Kubernetes speaks it: parsed, checked, compiled to Python."""
