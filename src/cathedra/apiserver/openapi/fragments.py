"""What OpenAPI documents are put together from."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["OpenAPIObject"]

OpenAPIObject: TypeAlias = dict[str, Any]
"""A part of a document: a schema, an operation, a response. It is made of literals and only ever encoded as JSON."""
