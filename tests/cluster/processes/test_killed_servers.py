"""SIGKILL of the root, of backups and of all servers, while clients publish and consume."""

import pytest

from tests.cluster.processes.servers import RunningCluster
from tests.cluster.processes.traffic import (
    Ledger,
    OwnPublisher,
    PikaPublisher,
    TransactedConsumer,
    await_confirms,
    declare,
    settle,
)

pytestmark = pytest.mark.timeout(900)


def test_nothing_confirmed_is_lost_when_the_root_is_killed_and_returns(
    three: RunningCluster,
) -> None:
    three.start()
    declare(three)
    ledger = Ledger()
    own = OwnPublisher(three)
    clients = [PikaPublisher(three, ledger), TransactedConsumer(three, ledger), own]
    await_confirms(three, ledger, 30)
    killed = three.whole_root()
    killed.kill()
    await_confirms(three, ledger, 30)
    # The one that was killed comes back, without becoming the root again by that.
    new_root = three.root()
    assert new_root is not killed
    killed.start()
    three.whole_root()
    await_confirms(three, ledger, 10)
    # The second one dies as well, so the rest must be where it came back.
    three.whole_root().kill()
    await_confirms(three, ledger, 10)
    for client in clients:
        client.end()
    settle(three, ledger)
    own.check()


def test_confirms_go_on_while_a_backup_is_dead_and_it_catches_up(three: RunningCluster) -> None:
    three.start()
    declare(three)
    ledger = Ledger()
    publisher = PikaPublisher(three, ledger)
    await_confirms(three, ledger, 20)
    three.whole_root()
    backup = three.backups()[0]
    backup.kill()
    await_confirms(three, ledger, 50)
    backup.start()
    three.whole_root()
    publisher.end()
    three.make_root(backup)
    settle(three, ledger)


def test_two_of_five_may_die_and_then_all_of_them(five: RunningCluster) -> None:
    declare(five.start())
    ledger = Ledger()
    clients = [PikaPublisher(five, ledger), TransactedConsumer(five, ledger)]
    await_confirms(five, ledger, 20)
    five.whole_root().kill()
    await_confirms(five, ledger, 10)
    five.root().kill()
    await_confirms(five, ledger, 10)
    for server in five.running():
        server.kill()
    five.start_again(five.servers)
    await_confirms(five, ledger, 10)
    for client in clients:
        client.end()
    settle(five, ledger)
