"""Isolation: a source's tools in worker processes, so that even the end of one costs a single call.

`source` is what the bridge runs, `pool` has the workers and `process` is one of them; `worker` is what runs inside,
below a `keeper` that leaves nothing of it behind. Between bridge and worker go lines of JSON (`words`, `offers`): what
a worker says is only ever data.
"""
