"""Plain JSON values, as decoders give them and encoders take them."""

from __future__ import annotations

from typing import TypeAlias

JSONValue: TypeAlias = "bool | int | float | str | list[JSONValue] | dict[str, JSONValue] | None"
"""A decoded JSON value."""
JSONObject: TypeAlias = dict[str, JSONValue]
"""A JSON object: fields in the order in which they were written."""
