"""A real Celery worker process: tasks, results, retries, remote control, events, a lost connection."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from celery import Celery, group
from celery.exceptions import TaskRevokedError
from kombu import pools

PROJECT = Path(__file__).parents[2]

# A worker's start is a second or two of imports, more when every core is busy.
START_SECONDS_MAX = 60.0
PATIENCE_SECONDS = 20.0

pytestmark = pytest.mark.timeout(90)


@contextmanager
def calling_application(broker_url: str) -> Iterator[Celery]:
    """A Celery application of this process that only sends; leaves no connection behind."""
    application = Celery("caller", broker=f"{broker_url}//", backend="rpc://", set_as_current=False)
    yield application
    results = application.backend.result_consumer
    if results._consumer is not None:  # one that never waited for a result cannot stop
        results.stop()
    application.close()
    pools.reset()  # type: ignore[no-untyped-call]  # kombu keeps one pool per broker address for all applications


@dataclass(frozen=True)
class Worker:
    """A worker process that takes tasks from its own queue and logs to its own file."""

    process: subprocess.Popen[bytes]
    name: str
    queue: str
    log: Path

    def call(self, caller: Celery, task: str, *arguments: object, **options: object) -> object:
        sent = caller.send_task(task, arguments, queue=self.queue, **options)
        return sent.get(timeout=PATIENCE_SECONDS)

    def wait_until_it_answers(self, caller: Celery) -> None:
        give_up_at = time.monotonic() + START_SECONDS_MAX
        while not caller.control.ping(destination=[self.name], timeout=0.3, limit=1):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < give_up_at, self.log.read_text()

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def caller(broker_url: str) -> Iterator[Celery]:
    with calling_application(broker_url) as application:
        yield application


@pytest.fixture(scope="module")
def start_worker(
    broker_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Worker]]:
    workers: list[Worker] = []

    def start(role: str) -> Worker:
        name = f"{role}-{os.getpid()}@interop"
        queue = f"interop.celery.{name}"
        log = tmp_path_factory.mktemp("celery") / "worker.log"
        command = [sys.executable, "-m", "celery", "-A", "tests.interop.celery_application"]
        command += ["worker", "--pool", "threads", "--concurrency", "2", "--events"]
        command += ["--hostname", name, "--loglevel", "INFO"]
        surroundings = {"INTEROP_BROKER_URL": f"{broker_url}//", "INTEROP_QUEUE": queue}
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=PROJECT, env=os.environ | surroundings, stdout=output, stderr=output
            )
        workers.append(Worker(process, name, queue, log))
        with calling_application(broker_url) as application:
            workers[-1].wait_until_it_answers(application)
        return workers[-1]

    yield start
    for worker in workers:
        worker.stop()
    with calling_application(broker_url) as application, application.connection() as connection:
        for worker in workers:
            connection.default_channel.queue_delete(worker.queue)
            connection.default_channel.exchange_delete(worker.queue)


@pytest.fixture(scope="module")
def worker(start_worker: Callable[[str], Worker]) -> Worker:
    return start_worker("first")


def test_a_task_comes_back_with_its_result(worker: Worker, caller: Celery) -> None:
    assert worker.call(caller, "interop.add", 20, 22) == 42


def test_a_task_keeps_its_arguments_types_and_size(worker: Worker, caller: Celery) -> None:
    value = {"nested": [1, 2.5, None, True, "grün"], "large": "x" * 400_000}
    assert worker.call(caller, "interop.echo", value) == value


def test_an_exception_in_a_task_is_raised_at_the_caller(worker: Worker, caller: Celery) -> None:
    with pytest.raises(ValueError, match="broken on purpose"):
        worker.call(caller, "interop.broken")


def test_a_task_is_retried_until_it_succeeds(worker: Worker, caller: Celery) -> None:
    assert worker.call(caller, "interop.stubborn", 2) == 2


def test_a_task_with_a_countdown_waits_for_it(worker: Worker, caller: Celery) -> None:
    sent_at = time.monotonic()
    assert worker.call(caller, "interop.add", 1, 2, countdown=1) == 3
    assert time.monotonic() - sent_at >= 0.9


def test_a_group_of_tasks_comes_back_in_order(worker: Worker, caller: Celery) -> None:
    tasks = [caller.signature("interop.add", (n, 1), queue=worker.queue) for n in range(30)]
    results = group(tasks, app=caller)().get(timeout=PATIENCE_SECONDS)
    assert results == list(range(1, 31))


def test_the_worker_obeys_remote_control(worker: Worker, caller: Celery) -> None:
    inspect = caller.control.inspect([worker.name], timeout=PATIENCE_SECONDS, limit=1)
    assert [queue["name"] for queue in inspect.active_queues()[worker.name]] == [worker.queue]
    assert "interop.add" in inspect.registered()[worker.name]


def test_a_revoked_task_is_not_run(worker: Worker, caller: Celery) -> None:
    sent = caller.send_task("interop.add", (1, 1), queue=worker.queue, countdown=1)
    (answer,) = caller.control.revoke(
        sent.id, destination=[worker.name], reply=True, timeout=PATIENCE_SECONDS, limit=1
    )
    assert "ok" in answer[worker.name]
    with pytest.raises(TaskRevokedError):
        sent.get(timeout=PATIENCE_SECONDS)


def test_the_workers_events_reach_a_listener(worker: Worker, caller: Celery) -> None:
    """Events go through a topic exchange to a queue that the listener made for itself."""
    events: list[tuple[object, object]] = []
    with caller.connection() as connection:
        receiver = caller.events.Receiver(
            connection,
            handlers={"*": lambda event: events.append((event.get("uuid"), event["type"]))},
        )
        with receiver.consumer_context(wakeup=False) as (listening, _, _):
            sent = caller.send_task("interop.add", (1, 1), queue=worker.queue)
            give_up_at = time.monotonic() + PATIENCE_SECONDS
            while (sent.id, "task-succeeded") not in events:
                assert time.monotonic() < give_up_at, events
                try:
                    listening.drain_events(timeout=1)
                except TimeoutError:
                    continue
        assert sent.get(timeout=PATIENCE_SECONDS) == 2
    mine = [kind for task, kind in events if task == sent.id]
    assert mine == ["task-received", "task-started", "task-succeeded"]


def test_a_second_worker_mingles_with_the_first(
    worker: Worker, start_worker: Callable[[str], Worker], caller: Celery
) -> None:
    second = start_worker("second")
    assert "mingle: sync complete" in second.log.read_text()
    assert second.call(caller, "interop.add", 2, 2) == 4
    names = {name for answer in caller.control.ping(timeout=1) for name in answer}
    assert {worker.name, second.name} <= names


def test_the_worker_comes_back_after_the_broker_dropped_it(
    worker: Worker, caller: Celery, drop_connections: Callable[[], object]
) -> None:
    drop_connections()
    assert worker.call(caller, "interop.add", 3, 4) == 7
    # Its control queue went with the connection; the tests after this one need it back.
    worker.wait_until_it_answers(caller)
    assert "Connection to broker lost" in worker.log.read_text()
