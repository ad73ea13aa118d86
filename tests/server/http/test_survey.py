"""Sums that never fall, whatever goes while they are made."""

from collections.abc import Generator

from penstock.broker.topology import AddVhost, DeclareQueue, DeleteQueue, DeleteVhost
from penstock.server.http.object_figures import Wanted
from penstock.server.http.survey import STEP_COUNT, Figures, Surveyor
from tests.seeds.doubles import House


def test_a_queue_that_goes_in_the_middle_of_a_survey_is_counted_once() -> None:
    node = House().node
    for number in range(STEP_COUNT + 1):
        node.apply_to_vhost("/", DeclareQueue(f"q{number}"), 0)
    queue = node.state.vhost("/").queues["q0"]
    queue.published_total = 7
    surveyor = Surveyor()
    steps = surveyor.survey(node, Wanted())
    next(steps)
    # It was looked at, counts a little more, and goes.
    queue.published_total = 9
    node.apply_to_vhost("/", DeleteQueue("q0"), 0)
    assert finished(steps).published == 9
    assert finished(surveyor.survey(node, Wanted())).published == 9


def test_of_two_surveys_at_once_the_later_answer_is_not_the_lower() -> None:
    node = House().node
    for number in range(STEP_COUNT + 1):
        node.apply_to_vhost("/", DeclareQueue(f"q{number}"), 0)
    queue = node.state.vhost("/").queues["q0"]
    surveyor = Surveyor()
    early = surveyor.survey(node, Wanted())
    next(early)
    queue.published_total = 5
    assert finished(surveyor.survey(node, Wanted())).published == 5
    assert finished(early).published == 5


def test_what_a_virtual_host_counted_stays_when_it_goes() -> None:
    node = House().node
    node.apply(AddVhost("other"), 0)
    node.apply_to_vhost("other", DeclareQueue("q"), 0)
    node.state.vhost("other").queues["q"].delivered_total = 3
    node.apply(DeleteVhost("other"), 0)
    figures = finished(Surveyor().survey(node, Wanted()))
    assert figures.delivered == 3
    assert (figures.queues_declared, figures.queues_deleted) == (1, 1)


def finished(steps: Generator[None, None, Figures]) -> Figures:
    found: object = None
    try:
        while True:
            next(steps)
    except StopIteration as end:
        found = end.value
    assert isinstance(found, Figures)
    return found
