"""Isolation: the tools of a source run in worker processes, so even a crash affects a single call.

The bridge runs `source`, `pool` owns the workers, and `process` is one of them as the bridge sees it. `worker` runs
inside, below a supervisor (`_runtime/supervisor.py`), which ends all processes that are left behind. Bridge and worker
exchange lines of JSON (`codec`, `offer_codec`). For the bridge, messages of a worker are data without any trust.
"""
