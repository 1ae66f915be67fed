"""`lint`: what is wrong with manifests, before a server or a device says so.

`lint` reads the manifests and asks all rules: `objects` those of the API server itself, `expressions` what selectors
tell when they are read (`requests` finds them), `claims` what pods and claims say about each other,
`slices` the pools, `devices` the devices of a cluster. Rules enter `Findings` (`subjects`) under the names that `rules`
lists; `suppression` leaves out what a comment allows. `model` is the answer, `text` and `sarif` show it.
"""
