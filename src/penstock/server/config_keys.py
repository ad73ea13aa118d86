"""What the keys of the configuration file are made of."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def key(
    default: object, description: str, *, reloaded: bool = False, path: bool = False, **bounds: Any
) -> Any:
    """A key of a table: its default, what it means, and whether SIGHUP changes it."""
    marks: dict[str, Any] = {"reloaded": reloaded, "path": path}
    return Field(default=default, description=description, json_schema_extra=marks, **bounds)


def file_key(description: str, *, reloaded: bool = False) -> Any:
    """A path; in the file, a relative one begins at the file's own directory."""
    return key("", description, reloaded=reloaded, path=True)


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
