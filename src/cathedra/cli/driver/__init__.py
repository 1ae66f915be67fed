"""Commands for drivers: check the contract, control the example driver, print manifests, run webhook and fabric."""
