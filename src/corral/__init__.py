"""Corral queues AI/ML jobs and runs each in the best of many Kubernetes clusters.

The names of the Python API are loaded when they are used: importing Corral itself loads nothing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corral.sdk.blocking import Call as Call
    from corral.sdk.blocking import Client as Client
    from corral.sdk.blocking import Job as Job
    from corral.sdk.client import AsyncClient as AsyncClient
    from corral.sdk.errors import CorralError as CorralError
    from corral.sdk.errors import JobFailedError as JobFailedError
    from corral.sdk.errors import JobWarning as JobWarning
    from corral.sdk.errors import NotFoundError as NotFoundError
    from corral.sdk.errors import RemoteError as RemoteError
    from corral.sdk.errors import WaitTimeoutError as WaitTimeoutError
    from corral.sdk.functions import RemoteFunction as RemoteFunction
    from corral.sdk.functions import job as job
    from corral.sdk.job import AsyncCall as AsyncCall
    from corral.sdk.job import AsyncJob as AsyncJob
    from corral.sdk.job import Explanation as Explanation
    from corral.sdk.job import JobStatus as JobStatus
    from corral.sdk.log_lines import LogLine as LogLine
    from corral.sdk.options import JobOptions as JobOptions
    from corral.sdk.tables import ClusterRow as ClusterRow
    from corral.sdk.tables import JobRow as JobRow
    from corral.sdk.tables import QueueRow as QueueRow
    from corral.sdk.tables import Table as Table

__version__ = "0.1.0"

_WHERE = {
    "Call": "blocking",
    "Client": "blocking",
    "Job": "blocking",
    "AsyncClient": "client",
    "CorralError": "errors",
    "JobFailedError": "errors",
    "JobWarning": "errors",
    "NotFoundError": "errors",
    "RemoteError": "errors",
    "WaitTimeoutError": "errors",
    "RemoteFunction": "functions",
    "job": "functions",
    "AsyncCall": "job",
    "AsyncJob": "job",
    "Explanation": "job",
    "JobStatus": "job",
    "LogLine": "log_lines",
    "JobOptions": "options",
    "ClusterRow": "tables",
    "JobRow": "tables",
    "QueueRow": "tables",
    "Table": "tables",
}


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'corral' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"corral.sdk.{_WHERE[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
