"""ResourceSlice.

A slice of an older version comes through `conversion`, is filled in by `defaults` and freed of `disabled_fields`;
`validation` checks it and each device (`capacity`, `counters`, `node_resources`); `strategy` brings them together and
holds the table.
"""
