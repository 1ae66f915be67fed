"""Which devices a claim gets on a node: pure functions over an inventory and a ledger."""
