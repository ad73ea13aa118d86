"""The Celery application that the worker of `test_celery.py` runs; its broker comes from outside."""

from __future__ import annotations

import json
import os

from celery import Celery, Task

application = Celery(
    "interop",
    broker=os.environ["INTEROP_BROKER_URL"],
    backend="rpc://",
    task_default_queue=os.environ["INTEROP_QUEUE"],
    task_send_sent_event=True,
    worker_send_task_events=True,
    broker_connection_retry_on_startup=True,
    # Files of certificates, for a broker that speaks TLS.
    broker_use_ssl=json.loads(os.environ.get("INTEROP_TLS", "null")),
)


@application.task(name="interop.add")
def add(x: int, y: int) -> int:
    return x + y


@application.task(name="interop.stubborn", bind=True, max_retries=3)
def stubborn(self: Task, succeeds_at: int) -> int:
    """Fails until it has been retried `succeeds_at` times; each retry is a new message with an ETA."""
    retries: int = self.request.retries
    if retries < succeeds_at:
        raise self.retry(countdown=0.05)
    return retries


@application.task(name="interop.broken")
def broken() -> None:
    raise ValueError("broken on purpose")


@application.task(name="interop.echo", acks_late=True)
def echo(value: object) -> object:
    return value
