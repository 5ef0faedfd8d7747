"""Isolation: the tools of a source run in worker processes, so that even a crash costs a single call.

`source` is what the bridge runs, `pool` owns the workers, and `process` is one of them as the bridge sees it. `worker`
is what runs inside, below a supervisor (`_runtime/supervisor.py`) that ends whatever it leaves behind. Bridge and
worker exchange lines of JSON (`codec`, `offer_codec`). The bridge treats what a worker sends as data and never trusts
it.
"""
