"""`penstock status`: is the broker healthy?"""

import typer

from penstock.cli.administering.exit_codes import REFUSED
from penstock.cli.administering.figures import duration_text, size_text
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Row, found


@operator()
def command(session: OperatorSession) -> None:
    """Show whether the broker is healthy, and the alarms.

    The exit code is 1 if it is not ready or an alarm is raised, so that scripts can use it.

    Examples:
      penstock status
      penstock status --server https://broker.example.org:15671 --ca ca.pem
      penstock status --watch

    """
    healths: list[bool] = []

    def read() -> Row:
        row = _read(session)
        healths.append(row["healthy"] is True)
        return row

    session.show_row(read, _facts)
    if not healths[-1]:
        raise typer.Exit(REFUSED)


def _read(session: OperatorSession) -> Row:
    overview = session.api.row("overview", columns="cluster_name,product_version,object_totals")
    node = (session.api.rows("nodes") or [{}])[0]
    is_ready, reason = session.api.readiness()
    alarms = [
        name
        for name, key in (("memory", "mem_alarm"), ("disk", "disk_free_alarm"))
        if node.get(key) is True
    ]
    return {
        "healthy": is_ready and not alarms,
        "ready": is_ready,
        "reason": reason,
        "alarms": alarms,
        "server": session.api.server,
        "name": overview.get("cluster_name"),
        "version": overview.get("product_version"),
        "uptime_ms": node.get("uptime"),
        "pid": node.get("os_pid"),
        "memory_bytes": node.get("mem_used"),
        "memory_limit_bytes": node.get("mem_limit"),
        "disk_free_bytes": node.get("disk_free"),
        "disk_limit_bytes": node.get("disk_free_limit"),
        "descriptors": node.get("fd_used"),
        "descriptors_max": node.get("fd_total"),
        "connections": found(overview, "object_totals", "connections"),
        "config_files": node.get("config_files"),
    }


def _facts(row: Row) -> list[tuple[str, object]]:
    healthy = "healthy" if row["healthy"] else "NOT HEALTHY"
    if row["reason"]:
        healthy += f": {row['reason']}"
    memory, memory_limit = size_text(row["memory_bytes"]), size_text(row["memory_limit_bytes"])
    disk, disk_limit = size_text(row["disk_free_bytes"]), size_text(row["disk_limit_bytes"])
    return [
        ("status", healthy),
        ("server", row["server"]),
        ("broker", f"{row['name']}, version {row['version']}, process {row['pid']}"),
        ("uptime", duration_text(row["uptime_ms"])),
        ("alarms", row["alarms"] or "none"),
        ("memory", f"{memory}, alarm above {memory_limit}"),
        ("disk", f"{disk} free, alarm below {disk_limit}"),
        ("files", f"{row['descriptors']} of {row['descriptors_max']}"),
        ("connections", row["connections"]),
    ]
