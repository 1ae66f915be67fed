"""What new pods are given: `defaults` by their surroundings, `credentials` by their service account."""
