"""The API server: decode, admit, validate, store, watch."""
