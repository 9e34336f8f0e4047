"""Configuration: the file, `.env`, the environment and flags become one checked `Config`.

This package knows no adapter: the types of their sections are passed in with `Models`.
"""

from pilothouse.config.holder import ConfigHolder, Reloaded, may_reload, watch
from pilothouse.config.layers import Loaded, full_name, load
from pilothouse.config.model import (
    ALWAYS_ON,
    AUTO,
    Adapter,
    ApprovalsSection,
    BudgetSection,
    Config,
    GatewaySection,
    IsolationSection,
    LimitsSection,
    LogSection,
    McpSection,
    Models,
    PeopleSection,
    PolicySection,
    WorkspaceSection,
)
from pilothouse.config.paths import Paths, find_paths
from pilothouse.config.problems import InvalidConfig, Problem
from pilothouse.config.sections import SECTIONS
from pilothouse.config.sources import read_env_names, read_toml
from pilothouse.config.values import find_zone
from pilothouse.config.workspace import (
    WORKSPACE_FILE_NAME,
    InWorkspace,
    Narrowing,
    Preferences,
    engine_tables,
    in_workspace,
    isolation_in,
    leaves_in,
    mode_in,
    narrowing_of,
    read_preferences,
    servers_in,
)
from pilothouse.core.secret import Secret

__all__ = [
    "ALWAYS_ON",
    "AUTO",
    "SECTIONS",
    "WORKSPACE_FILE_NAME",
    "Adapter",
    "ApprovalsSection",
    "BudgetSection",
    "Config",
    "ConfigHolder",
    "GatewaySection",
    "InWorkspace",
    "InvalidConfig",
    "IsolationSection",
    "LimitsSection",
    "Loaded",
    "LogSection",
    "McpSection",
    "Models",
    "Narrowing",
    "Paths",
    "PeopleSection",
    "PolicySection",
    "Preferences",
    "Problem",
    "Reloaded",
    "Secret",
    "WorkspaceSection",
    "engine_tables",
    "find_paths",
    "find_zone",
    "full_name",
    "in_workspace",
    "isolation_in",
    "leaves_in",
    "load",
    "may_reload",
    "mode_in",
    "narrowing_of",
    "read_env_names",
    "read_preferences",
    "read_toml",
    "servers_in",
    "watch",
]
