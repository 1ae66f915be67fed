"""The driver SDK: publish devices, prepare claims."""
