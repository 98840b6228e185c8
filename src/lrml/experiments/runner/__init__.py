"""A runner that survives being killed: jobs in separate processes, one line on disk per finished job."""

from lrml.experiments.runner._pool import Job, Outcome, WorkerError
from lrml.experiments.runner._run import Progress, machine, run_jobs, versions
from lrml.experiments.runner._store import Record, Store, StoreError

__all__ = [
    "Job",
    "Outcome",
    "Progress",
    "Record",
    "Store",
    "StoreError",
    "WorkerError",
    "machine",
    "run_jobs",
    "versions",
]
