"""What is passed on: `proxy` to node agents (`podoptions`, `kubelet`, `upgrades`), `aggregation` to other servers."""
