"""What the termini of an attach stand for; the front door of the modules named below.

A node belongs to one link endpoint and stays with it over suspension. `release_source` and
`release_target` say that the endpoint is suspended or gone, the latter only once. The caller
decides when a terminus expires, by its policy and time-out.
"""

from penstock.dialects.amqp10.nodes.source_nodes import (
    SourceNode,
    recall_source,
    release_source,
    resolve_source,
    resume_source,
)
from penstock.dialects.amqp10.nodes.target_nodes import (
    TargetNode,
    check_target,
    release_target,
    resolve_anonymous,
    resolve_target,
    resume_target,
)
from penstock.dialects.amqp10.nodes.termini import (
    CONNECTION_CLOSE,
    LINK_DETACH,
    NEVER,
    SESSION_END,
    Ending,
)

__all__ = [
    "CONNECTION_CLOSE",
    "LINK_DETACH",
    "NEVER",
    "SESSION_END",
    "Ending",
    "SourceNode",
    "TargetNode",
    "check_target",
    "recall_source",
    "release_source",
    "release_target",
    "resolve_anonymous",
    "resolve_source",
    "resolve_target",
    "resume_source",
    "resume_target",
]
