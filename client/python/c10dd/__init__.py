# SPDX-License-Identifier: Apache-2.0
"""c10dd: a durable store, barriers, exchanges and groups for the processes of a training job.

    import c10dd

    with c10dd.connect("c10dd://127.0.0.1:29500/llm", rank=0, world_size=2) as client:
        client.store.set("address/0", "10.0.0.1")
        client.barrier("start", timeout=60)

c10dd.torch connects PyTorch: init_method="c10dd://host:29500/job", torchrun --rdzv-backend=c10dd.
"""

from ._library import library as _loaded
from .client import Client, Endpoint, Launch, Proxy, ProxyCounts, Stats, connect, read_launch
from .errors import (
    Aborted, Closed, Compacted, DiskFull, Error, Forked, InvalidArgument, Missing, NotFound,
    OutcomeUnknown, OutOfRange, PermissionDenied, QuotaExceeded, RankTaken, SessionReplaced,
    StaleGeneration, StateRolledBack, TimedOut, Unavailable, WorkFinished, WrongType,
)
from .membership import Generation, GroupState, Member, Membership, Notice, Phase, Shape
from .store import Change, Entry, KeyList, Store, Transaction, TransactionResult, Watch

__version__: str = _loaded.c10dd_version().decode()

__all__ = [
    "Aborted", "Change", "Client", "Closed", "Compacted", "DiskFull", "Endpoint", "Entry", "Error",
    "Forked", "Generation", "GroupState", "InvalidArgument", "KeyList", "Launch", "Member",
    "Membership", "Missing", "NotFound", "Notice", "OutOfRange", "OutcomeUnknown",
    "PermissionDenied", "Phase", "Proxy", "ProxyCounts", "QuotaExceeded", "RankTaken",
    "SessionReplaced", "Shape", "StaleGeneration", "StateRolledBack", "Stats", "Store", "TimedOut",
    "Transaction", "TransactionResult", "Unavailable", "Watch", "WorkFinished", "WrongType", "connect",
    "read_launch",
]
