"""Bootstrap tokens, by which nodes join: `signing` lets them trust what they are told of the cluster before they can
check a certificate, `cleaning` deletes tokens that are over."""
