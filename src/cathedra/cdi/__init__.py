"""Container Device Interface: spec files, and their application to an OCI runtime spec."""
