"""From tree to verdict: types, declarations, the checker, the validators of literals, and the estimate of the cost."""
