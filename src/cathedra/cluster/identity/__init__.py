"""Who the parts of a cluster are: users with permissions, their credentials, and how nodes elsewhere get theirs.

`permissions` names the users, `credentials` writes their kubeconfigs, `reach` says where they find the API server,
`enrolment` packs what a node on another machine needs, `noderotation` renews its certificates.
"""
