"""The commands. `entry` is where the scripts begin; `main` parses and dispatches; `options` describes each option
once; `configuration` turns parsed options into what `cathedra.cluster` takes; `errors` says which failures are told in
one line. Each other module is a command."""
