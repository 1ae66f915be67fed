"""What exists and what is taken: `devices` (records of slices and devices), `nodes` (who may use them), `inventory`
(all slices, incrementally), `ledger` (all allocations, incrementally), `pools` (what one node sees of both)."""
