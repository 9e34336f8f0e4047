"""A workspace with everything in it that could lead astray, and one decision about a command in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pilothouse.core.ask import Ask
from pilothouse.core.call import Call
from pilothouse.core.ids import AskId
from pilothouse.core.policy import ApprovalMode, Ruling, Site, parse_rule
from pilothouse.policy.decide import PolicyEnv, decide
from pilothouse.policy.paths import Filesystem


class Plan:
    """`root` is the workspace; beside it lies what is none of its business."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.home = folder / "home"
        for made in ("src/deep", "tests", "links"):
            (self.root / made).mkdir(parents=True)
        (self.home / ".ssh").mkdir(parents=True)
        for name in ("README.md", "src/app.py", "src/util.py", "notes with blanks.txt", "package.json"):
            (self.root / name).write_text("{}")
        (folder / "secret.txt").write_text("secret")
        (self.root / ".git" / "objects").mkdir(parents=True)
        (self.root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (self.home / ".ssh" / "id_rsa").write_text("key")
        for name, target in (
            ("link_out", "/etc"),
            ("link_file", "/etc/hostname"),
            ("links/hostname", "/etc/hostname"),
            ("links/told", "../../secret.txt"),
            ("dangling", "/nowhere/at/all"),
            ("link_dir_up", ".."),
            ("link_in", "src"),
        ):
            (self.root / name).symlink_to(target)
        self.env = PolicyEnv(Filesystem(str(self.home)))

    def rule(
        self,
        command: str,
        rules: Sequence[str] = (),
        mode: ApprovalMode = "minimal",
        cwd: str | None = None,
    ) -> Ruling:
        call = Call("command", "Bash", cwd or str(self.root), command)
        ask = Ask(AskId("a"), "approval", command, call=call)
        return decide(ask, [parse_rule(line) for line in rules], Site(str(self.root), mode=mode), self.env)
