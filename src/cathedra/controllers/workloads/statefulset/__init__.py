"""Stateful sets: `volumeclaims` numbers pods and maintains their volume claims, `controller` reconciles the sets."""
