"""Keeps the garbage collector from scanning a Spark worker's loaded modules after every task.

Spark's workers run the garbage collector after each task. It then walks over every object of every
module that was imported, some hundred thousand of them: up to a quarter of the time that a task
that only reads spends in Python.
"""

from __future__ import annotations

import gc
from typing import Final

# The first task finds what the worker has loaded, the second what the first one has loaded.
SETTLING_TASKS: Final = 2
_task_count = 0


def settle_worker() -> None:
    """Objects that exist now live as long as this worker; the collector need not scan them again.
    Called by every task, effective in the first ones.
    """
    global _task_count
    if _task_count < SETTLING_TASKS:
        gc.freeze()
        _task_count += 1
