"""A runner that survives: jobs in processes of their own, one line on disk for each that is finished."""

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
