"""The objects of the Kubernetes API: types, quantities, selectors, versions, defaulting, validation."""
