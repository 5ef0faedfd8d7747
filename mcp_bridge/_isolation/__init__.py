"""Isolation: the tools of a source run in worker processes, so even a crash affects only a single call.

In the process of the bridge, `source` publishes the entries, `pool` owns the workers, `process` is one worker, and
`conversation` is one call in it. A worker is a plain process, or in a sandbox or container: `confinement` decides what
it can access. `worker` is the program that runs inside, with `worker_context` and `worker_link`. It runs below a
supervisor (`_runtime/platform/supervisor.py`), which ends all processes that are left behind. Bridge and worker
exchange lines of JSON (`codec`, `offer_codec`). The bridge does not trust the messages of a worker.
"""
