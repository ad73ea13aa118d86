"""What the tags of a user permit an operator to do, in RabbitMQ's words. The only place that says so.

    tag             management  monitoring  policymaker  administrator
    its own things      yes         yes         yes           yes
    all of them          -          yes          -            yes       other users', nodes, metrics
    policies             -           -          yes           yes       and parameters, where it has
                                                                        permissions
    everything           -           -           -            yes       users, virtual hosts, limits

Other tags may be given and say nothing. What a user may do with queues and exchanges is said by
permissions, whatever the tags.
"""

from typing import Final

_MANAGEMENT_TAG: Final = "management"
_MONITORING_TAG: Final = "monitoring"
_POLICYMAKER_TAG: Final = "policymaker"
ADMINISTRATOR_TAG: Final = "administrator"

# Who may; one of the tags is enough.
ADMINISTRATOR: Final = frozenset({ADMINISTRATOR_TAG})
MONITORING: Final = ADMINISTRATOR | {_MONITORING_TAG}
POLICYMAKER: Final = ADMINISTRATOR | {_POLICYMAKER_TAG}
MANAGEMENT: Final = MONITORING | POLICYMAKER | {_MANAGEMENT_TAG}
