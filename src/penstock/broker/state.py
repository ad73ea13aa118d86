"""The whole state of one broker: virtual hosts, users, permissions, timers.

What a node holds of the core. It starts with what RabbitMQ starts with: the virtual host `/` and
the user `guest`, who is let in from loopback only.
"""

from typing import Final

from penstock.broker.access.login_delay import LoginDelays
from penstock.broker.access.permissions import Access, AccessTable
from penstock.broker.access.tags import ADMINISTRATOR_TAG
from penstock.broker.access.tokens import TokenGrant
from penstock.broker.access.topic_permissions import TopicAccessTable
from penstock.broker.access.user_limits import UserLimits
from penstock.broker.access.users import (
    DEFAULT_USER,
    DEFAULT_USER_HASH,
    DEFAULT_USER_SCRAM_KEYS,
    Users,
    Verification,
)
from penstock.broker.definition_log import DefinitionLog
from penstock.broker.discarded import Discarded
from penstock.broker.errors import (
    AccessRefused,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    ResourceError,
)
from penstock.broker.names import check_operators_name
from penstock.broker.parameters import (
    CLUSTER_NAME,
    change_global_parameter,
    is_cluster_name,
)
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.shared_services import QueueWatcher, SharedServices, Totals
from penstock.broker.stream_store import StreamStore
from penstock.broker.timers import Timers, WallClock
from penstock.broker.topology import (
    DONE,
    AddVhost,
    BrokerCommand,
    ClearGlobalParameter,
    ClearPermissions,
    ClearTopicPermissions,
    DeleteUser,
    DeleteVhost,
    NumberFrom,
    PutUser,
    Result,
    SetGlobalParameter,
    SetPermissions,
    SetTopicPermissions,
    SetUserLimits,
)
from penstock.broker.vhost import VirtualHost
from penstock.world.entropy import Entropy

DEFAULT_VHOST: Final = "/"
EVERYTHING: Final = ".*"
# Each virtual host costs seven exchanges, about 10 kB. This allows for thousands of tenants.
VHOSTS_MAX: Final = 10_000


class BrokerState:
    """Held by the node, which gives dialects access to it."""

    def __init__(self, entropy: Entropy) -> None:
        # What all virtual hosts share. The most used parts have a name here, too.
        self.shared: SharedServices = SharedServices()
        self.timers: Timers = self.shared.timers
        self.touched: list[MessageQueue] = self.shared.touched
        self.discarded: Discarded = self.shared.discarded
        self.wall: WallClock = self.shared.wall
        self.streams: StreamStore = self.shared.streams
        self.totals: Totals = self.shared.totals
        self.vhosts: dict[str, VirtualHost] = {}
        self.users: Users = Users(entropy)
        self.access: AccessTable = AccessTable()
        self.topic_access: TopicAccessTable = TopicAccessTable()
        self.user_limits: UserLimits = UserLimits()
        self.global_parameters: dict[str, object] = {}
        # Of a server on its own: by which it numbers; 0 before its first queue had a replica.
        self.epoch: int = 0
        self.login_delays: LoginDelays = LoginDelays()

    @property
    def definitions(self) -> DefinitionLog:
        return self.shared.definitions

    @property
    def decides(self) -> bool:
        """False on a backup, and while a start reads back what is there."""
        return self.shared.decides

    @decides.setter
    def decides(self, decides: bool) -> None:
        self.shared.decides = decides

    def queues(self) -> list[MessageQueue]:
        """The queues of all virtual hosts."""
        return [queue for vhost in self.vhosts.values() for queue in vhost.queues.values()]

    def cluster_name(self, otherwise: str) -> str:
        """The name that an operator has chosen, if one has."""
        chosen = self.global_parameters.get(CLUSTER_NAME)
        return str(chosen) if is_cluster_name(chosen) else otherwise

    def apply(self, command: BrokerCommand, now: int) -> Result:
        """Do what the command says or raise a `Refusal`."""
        gone_number = 0
        if isinstance(command, AddVhost):
            self._add_vhost(command)
        elif isinstance(command, DeleteVhost):
            gone_number = self.vhost(command.name).delay_line.number
            self._delete_vhost(command.name, now)
        elif isinstance(command, PutUser):
            self.users.put(command)
        elif isinstance(command, DeleteUser):
            self._delete_user(command.name)
        elif isinstance(command, SetUserLimits):
            self._check_user(command.user)
            self.user_limits.put(command)
        elif isinstance(command, NumberFrom):
            self._number_from(command.epoch)
        elif isinstance(command, (SetGlobalParameter, ClearGlobalParameter)):
            change_global_parameter(self.global_parameters, command)
        else:
            self._change_permissions(command)
        self.definitions.broker_changed(command, gone_number)
        return DONE

    def _number_from(self, epoch: int) -> None:
        assert epoch > self.epoch, "epochs only grow"
        self.epoch = epoch
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                queue.begin_epoch(epoch)
            vhost.delay_line.begin_epoch(epoch)

    def _change_permissions(
        self,
        command: SetPermissions | ClearPermissions | SetTopicPermissions | ClearTopicPermissions,
    ) -> None:
        self._check_user(command.user)
        vhost = self.vhost(command.vhost)
        if isinstance(command, SetPermissions):
            self.access.grant(command)
        elif isinstance(command, ClearPermissions):
            self.access.revoke(command.user, command.vhost)
        elif isinstance(command, SetTopicPermissions):
            self.topic_access.grant(command)
        else:
            self.topic_access.revoke(command.user, command.vhost, command.exchange)
        # A dialect keeps a route together with the permission to use it.
        vhost.routing.changed()

    def _add_vhost(self, command: AddVhost) -> None:
        """One that is there keeps what is in it, and is described anew."""
        name = command.name
        vhost = self.vhosts.get(name)
        if vhost is None:
            check_operators_name("a vhost name", name)
            if len(self.vhosts) >= VHOSTS_MAX:
                raise PreconditionFailed(f"limit of {VHOSTS_MAX} vhosts is reached")
            vhost = VirtualHost(name, self.shared)
        vhost.describe(command)
        self.vhosts[name] = vhost

    def _delete_vhost(self, name: str, now: int) -> None:
        self.vhost(name).remove_everything(now)
        del self.vhosts[name]
        self.access.revoke_vhost(name)
        self.topic_access.revoke_vhost(name)

    def _delete_user(self, name: str) -> None:
        self.users.remove(name)
        self.access.revoke_user(name)
        self.topic_access.revoke_user(name)
        self.user_limits.forget(name)
        for vhost in self.vhosts.values():
            vhost.routing.changed()

    def _check_user(self, name: str) -> None:
        if self.users.find(name) is None:
            raise NotFound(f"no user '{name}'")

    def vhost(self, name: str) -> VirtualHost:
        found = self.vhosts.get(name)
        if found is None:
            raise NotFound(f"no vhost '{name}'")
        return found

    def open_vhost(
        self,
        name: str,
        user: str,
        connection_count: int,
        user_connection_count: int,
        grant: TokenGrant | None = None,
    ) -> tuple[VirtualHost, Access]:
        """What a connection gets when it names its virtual host. The counts are of those that
        have it open already, and of those that the user has. `grant` is of the token with which it has
        logged in, if it was one.
        """
        vhost = self.vhosts.get(name)
        if vhost is None:
            raise NotFound(f"vhost {name} not found")
        access: Access | None = None
        if grant is None:
            access = self.access.find(user, name)
        else:
            access = grant.access(name)
        if access is None:
            raise AccessRefused(f"access to vhost '{name}' refused for user '{user}'")
        if 0 <= vhost.max_connections <= connection_count:
            raise ResourceError(
                f"access to vhost '{name}' refused for user '{user}': "
                f"connection limit ({vhost.max_connections}) is reached"
            )
        allowed = self.user_limits.of(user).max_connections
        if 0 <= allowed <= user_connection_count:
            raise ResourceError(
                f"connection refused for user '{user}': user connection limit ({allowed}) is reached"
            )
        return vhost, access

    def check_channel_count(self, user: str, count: int) -> None:
        """Before the user opens one more; so many are open on all of its connections."""
        allowed = self.user_limits.of(user).max_channels
        if 0 <= allowed <= count:
            raise NotAllowed(
                f"number of channels opened for user '{user}' has reached the maximum allowed "
                f"user limit of ({allowed})"
            )

    def begin_login(self, user: str, password: bytes, host: str, now: int) -> Verification:
        """Begin a peer's login; a password that is not remembered has to be checked."""
        may_compare = self.login_delays.may_compare(user, host, now)
        verification = self.users.verifier(user, password, may_compare)
        verification.asked_at = now
        if verification.is_known_wrong:
            self.login_delays.mismatched(user, host, now)
        return verification

    def log_definitions(self, definitions: DefinitionLog) -> None:
        """From now on changes are recorded."""
        self.shared.definitions = definitions

    def watch_queues(self, watcher: QueueWatcher) -> None:
        """From now on the watcher sees every queue that is declared."""
        self.shared.watcher = watcher

    def set_wall_offset(self, milliseconds: int) -> None:
        """The node tells what the wall clock shows when `now` is zero."""
        self.wall.offset_ms = milliseconds

    def connection_ended(self, connection: int, now: int) -> None:
        for vhost in self.vhosts.values():
            vhost.connection_ended(connection, now)


def put_defaults(state: BrokerState, now: int) -> None:
    """What a broker that has never run before begins with."""
    state.apply(AddVhost(DEFAULT_VHOST), now)
    guest = PutUser(
        DEFAULT_USER, DEFAULT_USER_HASH, (ADMINISTRATOR_TAG,), True, DEFAULT_USER_SCRAM_KEYS
    )
    state.apply(guest, now)
    everything = SetPermissions(DEFAULT_USER, DEFAULT_VHOST, EVERYTHING, EVERYTHING, EVERYTHING)
    state.apply(everything, now)
