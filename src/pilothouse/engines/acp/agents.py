"""The agents that are known by name: how each is started, made to ask, and kept from a repository's own settings. Data only.

`asks` is set for an agent that was seen, with the real program, to ask before every call when it is started like this. Every
other one runs in full access only. `docs/engines/acp.md` says what was tried.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pilothouse.core.engine import TrustedFile

_QWEN_SETTINGS = """{
  "security": {"folderTrust": {"enabled": true}},
  "general": {"enableAutoUpdate": false},
  "memory": {"enableManagedAutoMemory": false, "enableManagedAutoDream": false},
  "ui": {"enableFollowupSuggestions": false},
  "tools": {"approvalMode": "default", "core": ["read_file", "grep_search", "glob", "run_shell_command", "write_file", "edit", "web_fetch"]},
  "permissions": {"ask": ["Bash", "Read", "Edit", "Write", "Grep", "Glob", "WebFetch"]}
}
"""
"""Settings of the system count before those of the user and of the workspace."""
_INSTRUCTIONS = TrustedFile("AGENTS.md", "instructions", runs=False)


def _runs(*paths: str, told: tuple[str, ...] = ()) -> tuple[TrustedFile, ...]:
    """Return what an agent without a switch obeys in a folder: settings, MCP servers, hooks and the like, and instructions."""
    settings = (TrustedFile(path, "settings, MCP servers or hooks, which run programs") for path in paths)
    return (*settings, *(TrustedFile(path, "instructions", runs=False) for path in told), _INSTRUCTIONS)


class Agent(Struct, frozen=True):
    """In arguments, variables and files, {folder} is a folder of ours for this workspace, and {workspace} the workspace.

    In `files`, the workspace is written as in JSON.
    """

    title: str
    command: tuple[str, ...] = ()
    install: str = ""
    """The line that installs it, or updates it."""
    login: str = ""
    """A sentence that says how to log in, without its full stop; {machine} is the machine's name."""
    names: tuple[str, ...] = ()
    """Variables that it takes keys and addresses from."""
    environment: Mapping[str, str] = {}
    args: tuple[str, ...] = ()
    """Added to the command where calls are judged: they make it ask before every call."""
    files: Mapping[str, str] = {}
    """Texts of files in {folder} that these arguments and variables name."""
    trusted: Mapping[str, str] = {}
    """Variables for a trusted workspace, and for any other."""
    untrusted: Mapping[str, str] = {}
    """Without any, it is refused in a workspace that is not trusted: nothing keeps it from the settings there."""
    asks: bool = False
    mode: str = ""
    """The mode in which it asks; empty if it has one mode only."""
    titled: str = ""
    """Set where a command comes as the title of its call, without an input: finds its folder in the call's content."""
    name_end: str = ""
    """Set where a call's id begins with the tool's name: what follows the name."""
    retries: str = ""
    """Finds a message, sent as a whole, by which it says that it repeats a request to its model."""
    fails: str = ""
    """Finds a message, sent as a whole, by which it says that its model failed: `why`, and the HTTP `status` or None."""
    counts_session: bool = False
    """The tokens at the end of a prompt are those of the whole session."""
    leaves_commands: bool = False
    """A stop leaves its commands running, so its process is ended with them."""
    home: str = ""
    """Its own folder in the home folder. Inside a jail it is another one for each workspace, with its settings and login."""
    endpoints: tuple[str, ...] = ()
    """Servers of its model; those that its variables name are known besides."""
    keys: Mapping[str, tuple[str, str]] = {}
    """Variables with keys that a jailed one need not hold: the variable that names the address of its model, and the address
    that counts without it; empty if none is known."""
    resume: str = ""
    """The command that goes on in a terminal with the session whose id follows. Such ids are UUIDs."""
    tested: str = ""
    """The version that was tried, or recorded."""
    trusted_files: tuple[TrustedFile, ...] = (_INSTRUCTIONS,)


PLAIN = Agent("The agent")

AGENTS: Mapping[str, Agent] = {
    "gemini": Agent(
        "Gemini CLI",
        ("gemini", "--acp"),
        "npm install -g @google/gemini-cli",
        "Set GEMINI_API_KEY on {machine}, or run `gemini` there and log in",
        ("GEMINI_*", "GOOGLE_*"),
        {"GEMINI_CLI_NO_RELAUNCH": "true"},
        args=("--approval-mode", "default", "--admin-policy", "{folder}/ask.toml"),
        files={"ask.toml": '[[rule]]\ntoolName = "*"\ndecision = "ask_user"\npriority = 998\n'},
        trusted={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        untrusted={"GEMINI_CLI_TRUST_WORKSPACE": "false"},
        asks=True,  # in each of its modes, because of the policy
        titled=r"\[(?:in|current working directory) (?P<cwd>[^\[\]]+)\](?: \(| \[background\]$|$)",
        name_end="__",
        home=".gemini",
        endpoints=("https://generativelanguage.googleapis.com", "https://cloudcode-pa.googleapis.com"),
        keys={"GEMINI_API_KEY": ("GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com")},
        resume="gemini --resume",
        tested="0.61.0",
        trusted_files=(
            TrustedFile(".gemini", "settings, MCP servers, hooks, extensions and commands"),
            TrustedFile("GEMINI.md", "instructions", runs=False),
            _INSTRUCTIONS,
        ),
    ),
    "qwen": Agent(
        "Qwen Code",
        ("qwen", "--acp"),
        "npm install -g @qwen-code/qwen-code",
        "Set OPENAI_API_KEY and OPENAI_BASE_URL on {machine}, or run `qwen` there and log in",
        ("OPENAI_*", "QWEN_*", "DASHSCOPE_*"),
        files={
            "trusted.json": '{"{workspace}": "TRUST_FOLDER"}',
            "untrusted.json": '{"{workspace}": "DO_NOT_TRUST"}',
            "system.json": _QWEN_SETTINGS,
        },
        environment={"QWEN_CODE_SYSTEM_SETTINGS_PATH": "{folder}/system.json"},
        trusted={"QWEN_CODE_TRUSTED_FOLDERS_PATH": "{folder}/trusted.json"},
        untrusted={"QWEN_CODE_TRUSTED_FOLDERS_PATH": "{folder}/untrusted.json"},
        asks=True,
        mode="default",
        home=".qwen",
        endpoints=("https://dashscope.aliyuncs.com", "https://chat.qwen.ai"),
        keys={"OPENAI_API_KEY": ("OPENAI_BASE_URL", "")},
        resume="qwen --resume",
        trusted_files=(TrustedFile(".qwen", "settings, MCP servers, hooks and commands"), _INSTRUCTIONS),
        tested="0.24.4",
    ),
    "copilot": Agent(
        "GitHub Copilot CLI",
        ("copilot", "--acp"),
        "npm install -g @github/copilot",
        "Run `copilot` on {machine} and log in with /login",
        ("COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN"),
        {"COPILOT_AUTO_UPDATE": "false"},
        retries=r"Info: [^\n]+ Retrying\.\.\.",
        fails=r"Error: (?P<why>(?:(?P<status>\d{3}) |Authentication failed|Failed to get response from the AI model).*)",
        counts_session=True,
        keys={"COPILOT_PROVIDER_API_KEY": ("COPILOT_PROVIDER_BASE_URL", "")},
        resume="copilot --session-id",
        trusted_files=_runs(
            *(
                f".github/{name}"
                for name in ("hooks", "copilot", "extensions", "skills", "agents", "lsp.json", "mcp.json")
            ),
            *(".mcp.json", ".vscode/mcp.json", ".claude", ".agents"),
            told=(".github/copilot-instructions.md", ".github/instructions", "CLAUDE.md", "GEMINI.md"),
        ),
        tested="1.0.102",
    ),
    "goose": Agent(
        "goose",
        ("goose", "acp"),
        "see https://block.github.io/goose",
        "Run `goose configure` on {machine}",
        ("GOOSE_*", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"),
        trusted_files=_runs(".goose", ".agents", ".claude/skills", told=(".goosehints",)),
    ),
    "kimi": Agent(
        "Kimi Code",
        ("kimi", "acp"),
        "npm install -g @moonshot-ai/kimi-code",
        "Run `kimi` on {machine} and log in with /login",
        ("KIMI_*", "MOONSHOT_*"),
        trusted_files=_runs(".kimi-code", ".kimi", ".agents/skills", ".claude/skills"),
    ),
    "claude-agent-acp": Agent(
        "Claude Agent (ACP)",
        ("claude-agent-acp",),
        "npm install -g @agentclientprotocol/claude-agent-acp",
        "Run `claude` on {machine} and log in with /login",
        ("ANTHROPIC_*", "CLAUDE_*"),
        # Without it, a wrong key means minutes of silence.
        {"CLAUDE_CODE_MAX_RETRIES": "3", "DISABLE_AUTOUPDATER": "1"},
        mode="default",
        keys=dict.fromkeys(
            ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), ("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
        ),
        trusted_files=_runs(".claude", ".mcp.json", told=("CLAUDE.md", "CLAUDE.local.md")),
        tested="0.99.1",
    ),
    "codex-acp": Agent(
        "Codex (ACP)",
        ("codex-acp",),
        "npm install -g @agentclientprotocol/codex-acp",
        "Run `codex login` on {machine}",
        ("CODEX_*", "OPENAI_API_KEY"),
        mode="read-only",
        leaves_commands=True,
        trusted_files=_runs(".codex", ".agents/skills"),
        tested="2.6.0",
    ),
    "opencode-acp": Agent(
        "OpenCode (ACP)",
        ("opencode", "acp"),
        "npm install -g opencode-ai",
        "Run `opencode auth login` on {machine}",
        ("OPENCODE_*",),
        trusted_files=_runs(
            *("opencode.json", "opencode.jsonc", ".opencode", ".claude/skills", ".agents/skills"),
            told=("CLAUDE.md", "CONTEXT.md"),
        ),
        tested="1.18.33",
    ),
    "auggie": Agent(
        "Auggie",
        ("auggie", "--acp"),
        "npm install -g @augmentcode/auggie",
        "Run `auggie login` on {machine}",
        trusted_files=_runs(".augment", ".mcp.json", ".claude", ".agents", told=(".augment-guidelines",)),
    ),
    "cline": Agent(
        "Cline",
        ("cline", "--acp"),
        "npm install -g cline",
        "Run `cline auth` on {machine}",
        trusted_files=_runs(".cline", ".clinerules", ".agents/skills", ".claude/skills"),
    ),
    "cursor": Agent(
        "Cursor Agent",
        ("cursor-agent", "acp"),
        "see https://cursor.com/cli",
        "Run `cursor-agent login` on {machine}",
        trusted_files=_runs(".cursor", ".mcp.json", ".claude", ".agents", told=(".cursorrules", "CLAUDE.md")),
    ),
    "droid": Agent(
        "Factory Droid",
        ("droid", "exec", "--output-format", "acp"),
        "see https://factory.ai",
        "Run `droid` on {machine} and log in",
        ("FACTORY_*",),
        trusted_files=_runs(".factory", ".mcp.json", ".agents", ".claude", told=("CLAUDE.md",)),
    ),
    "kilo": Agent(
        "Kilo Code",
        ("kilo", "acp"),
        "npm install -g @kilocode/cli",
        "Run `kilo auth` on {machine}",
        trusted_files=_runs(
            *(".kilo", ".kilocode", "kilo.json", "kilo.jsonc", "opencode.json", "opencode.jsonc"),
            *(".opencode", ".agents/skills", ".claude/skills"),
        ),
    ),
    "pi-acp": Agent(
        "pi (ACP)",
        ("pi-acp",),
        "npm install -g pi-acp",
        "Run `pi` on {machine} and log in",
        trusted_files=_runs(".pi", ".agents/skills", told=("CLAUDE.md",)),
    ),
    "vibe": Agent(
        "Mistral Vibe",
        ("vibe-acp",),
        "uv tool install mistral-vibe",
        "Set MISTRAL_API_KEY on {machine}",
        ("MISTRAL_*",),
        trusted_files=_runs(".vibe", ".agents/skills"),
    ),
}
