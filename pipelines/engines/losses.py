"""What Spark says when an executor has gone, and relations in its memory with it.

Spark runs tasks of a lost executor again, but a relation that was cut off from how it was made cannot be made again:
the job fails, while the session and its other executors are well.
"""

from __future__ import annotations

import re

_LOST = re.compile(
    r"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|Checkpoint block \S+ not found|ExecutorLostFailure|FetchFailed"
    r"|MetadataFetchFailedException|Failed to get broadcast_|BlockNotFoundException|Could not get block\(s\)"
    r"|Executor \S+ is (?:lost|dead)|ExecutorDeadException",
)


def is_executor_lost(error: BaseException) -> bool:
    """Returns whether a job failed because an executor has gone."""
    seen: BaseException | None = error
    while seen is not None:
        if _LOST.search(str(seen)):
            return True
        seen = seen.__cause__ or seen.__context__
    return False
