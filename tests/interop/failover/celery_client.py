"""Celery: its broker address may be a list, separated by semicolons. Tasks are acknowledged late.

Celery can repeat a publish by itself (`retry`), but cannot mark it as repeated: a duplicate then has
the same task id and no flag. Here the application repeats, and marks.
"""

from __future__ import annotations

import time

from celery import Celery, Task
from kombu.exceptions import OperationalError

from tests.interop.failover.errand import (
    PAUSE_SECONDS,
    REST_SECONDS,
    WINDOW,
    Errand,
    body_of,
    errand,
    report_confirmed,
    report_received,
    until_told,
)

TASK = "failover.receive"


def application(work: Errand) -> Celery:
    return Celery(
        "failover",
        broker=";".join(f"{uri}//" for uri in work.uris()),
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={"confirm_publish": True},
        task_default_queue=work.queue,
        task_acks_late=True,
        task_ignore_result=True,
        worker_prefetch_multiplier=WINDOW,
        worker_enable_remote_control=False,
        worker_redirect_stdouts=False,
    )


def send(work: Errand) -> None:
    told = until_told()
    sender = application(work)
    number, is_again = 0, False
    while not told.is_set():
        try:
            sender.send_task(TASK, (body_of(number, is_again),), retry=False)
        except OperationalError:
            is_again = True
            time.sleep(PAUSE_SECONDS)
        else:
            report_confirmed(number)
            number, is_again = number + 1, False
            time.sleep(REST_SECONDS)


def receive(work: Errand) -> None:
    worker = application(work)

    @worker.task(name=TASK, bind=True)
    def take(self: Task, body: str) -> None:
        report_received(body, self.request.delivery_info["redelivered"])

    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=WARNING"]
    worker.worker_main(["worker", "--pool=threads", "--concurrency=1", *quiet])


if __name__ == "__main__":
    mine = errand()
    if mine.is_sender:
        send(mine)
    else:
        receive(mine)
