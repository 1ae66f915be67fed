"""The single tests that a candidate must pass: `selectors` (CEL), `capacity` (consumable capacity), `values`
(attribute values as constraints compare them), and `derived` attributes."""
