"""The table of all operations of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server.http.api.aliveness import AlivenessTest
from penstock.server.http.api.auth_pages import AuthPages
from penstock.server.http.api.binding_changes import BindingChanges
from penstock.server.http.api.binding_pages import BindingPages
from penstock.server.http.api.cluster_name import ClusterName
from penstock.server.http.api.cluster_pages import ClusterPages
from penstock.server.http.api.connection_closing import ConnectionClosing
from penstock.server.http.api.connection_pages import ConnectionPages
from penstock.server.http.api.definition_pages import DefinitionPages
from penstock.server.http.api.exchange_changes import ExchangeChanges
from penstock.server.http.api.exchange_pages import ExchangePages
from penstock.server.http.api.explain import ExplainPages
from penstock.server.http.api.get_page import GetPage
from penstock.server.http.api.ha_pages import HaPages
from penstock.server.http.api.health_checks import HealthChecks
from penstock.server.http.api.limit_pages import LimitPages
from penstock.server.http.api.log_level import LogLevelPages
from penstock.server.http.api.moves import MovePages
from penstock.server.http.api.nodes import NodePages
from penstock.server.http.api.overview import OverviewPages
from penstock.server.http.api.parameter_pages import GlobalParameterPages, ParameterPages
from penstock.server.http.api.peek import PeekPages
from penstock.server.http.api.permission_pages import PermissionPages
from penstock.server.http.api.policy_pages import PolicyPages
from penstock.server.http.api.publish_page import PublishPage
from penstock.server.http.api.queue_ages import AgePages
from penstock.server.http.api.queue_arguments import QueueArgumentPages
from penstock.server.http.api.queue_changes import QueueChanges
from penstock.server.http.api.queue_pages import MessageQueuePages
from penstock.server.http.api.replica_pages import ReplicaPages
from penstock.server.http.api.sampler import Sampler
from penstock.server.http.api.topic_permission_pages import TopicPermissionPages
from penstock.server.http.api.user_pages import UserPages
from penstock.server.http.api.vhost_changes import VhostChanges
from penstock.server.http.api.vhost_pages import VhostPages
from penstock.server.http.api.whoami import WhoAmI

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.server.http.api.operation import Operation
    from penstock.server.http.line import BrokerLine
    from penstock.server.http.login import Doorkeeper


def all_operations(line: BrokerLine, door: Doorkeeper, data: Path | None) -> list[Operation]:
    """In the order in which paths are tried: a fixed word before a name at the same place."""
    sampler = Sampler(line)
    return [
        *WhoAmI().operations(),
        *LogLevelPages(line).operations(),
        *OverviewPages(line, sampler).operations(),
        *NodePages(line, sampler, data).operations(),
        *ConnectionPages(line, sampler).operations(),
        *BindingPages(line).operations(),
        *QueueArgumentPages(line).operations(),
        *QueueChanges(line).operations(),
        *MovePages(line).operations(),
        *PeekPages(line).operations(),
        *ExplainPages(line).operations(),
        *AgePages(line).operations(),
        *UserPages(line).operations(),
        *PermissionPages(line).operations(),
        *TopicPermissionPages(line).operations(),
        *VhostChanges(line).operations(),
        *LimitPages(line).operations(),
        *ParameterPages(line).operations(),
        *GlobalParameterPages(line).operations(),
        *PolicyPages(line, is_operator=False).operations(),
        *PolicyPages(line, is_operator=True).operations(),
        *DefinitionPages(line).operations(),
        *GetPage(line).operations(),
        *ExchangeChanges(line).operations(),
        *PublishPage(line).operations(),
        *BindingChanges(line).operations(),
        *ConnectionClosing(line).operations(),
        *ClusterName(line).operations(),
        *ClusterPages(line, door).operations(),
        *HaPages(line).operations(),
        *ReplicaPages(line).operations(),
        *AlivenessTest(line).operations(),
        *HealthChecks(line).operations(),
        *AuthPages(line, door).operations(),
        *MessageQueuePages(line, sampler).operations(),
        *ExchangePages(line).operations(),
        *VhostPages(line, sampler).operations(),
    ]
