"""Structured logs. Events are `noun.verb_past` with fields, never prose; fields of the task are added automatically."""

from pilothouse.logs.log import Log, emergency, open_log, with_fields
from pilothouse.logs.redaction import MARK, Redactor, redact

__all__ = ["MARK", "Log", "Redactor", "emergency", "open_log", "redact", "with_fields"]
