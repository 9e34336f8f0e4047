"""How often people are asked about harmless commands: 90 that agents run all day to look around, in the mode minimal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pilothouse.core.ask import Ask
from pilothouse.core.call import Call
from pilothouse.core.ids import AskId
from pilothouse.core.policy import Ruling, Site
from pilothouse.policy.decide import PolicyEnv, decide

MOST_ASKED = 0.08
EVERYDAY = r"""
ls *.md
ls src/*.py
ls -lh src docs
ls -R src | head -50
ls -t | head -5
pwd && ls
tree -L 2
du -sh *
du -sh src docs
du -h --max-depth=1 . | sort -h
df -h
wc -l src/*.py
wc -l README.md docs/guide.md
find . -name '*.py' -not -path './.git/*'
find . -name '*.md' -exec wc -l {} +
find . -name '*.py' -exec wc -l {} \;
find src -type f -exec grep -l TODO {} +
find . -type f -name '*.json' | head
find . -maxdepth 2 -type d
find . -newer README.md
cat README.md
cat src/app.py src/util.py
cat -n src/app.py | sed -n '1,40p'
cat package.json | jq .scripts
head -50 src/app.py
tail -n +10 src/app.py
sed -n '10,20p' src/app.py
sed 's/foo/bar/' README.md
sed -n '/start/,/end/p' src/app.py
awk '{print $1}' README.md
awk -F: '{print $1, $3}' README.md
awk 'NR==5' src/app.py
awk '/def / {n++} END {print n}' src/app.py
grep -rn TODO src
grep -rn "def main" --include='*.py' .
grep -rn "import os" --include=*.py src
grep -c foo README.md
grep -E 'a|b' *.md
grep -n -A 3 -B 2 main src/app.py
rg -n "class \w+" src
rg -l TODO
rg --files | head -20
rg -t py 'import' src
sort README.md | uniq -c | sort -rn | head
cut -d, -f1 README.md
diff README.md docs/guide.md
diff -u src/app.py src/util.py
cmp README.md docs/guide.md
stat README.md
file src/app.py
md5sum README.md
git status
git status --short
git diff
git diff --stat HEAD~1
git diff HEAD -- src/app.py
git log --oneline -10
git log -p -1
git log --format='%h %an %s' -5
git show HEAD:src/app.py
git blame -L 1,20 src/app.py
git branch -a
git remote -v
git ls-files | wc -l
git rev-parse --abbrev-ref HEAD
git stash list
git config --get user.name
git grep -n main
cd src && ls -la
cd src && cat app.py | head -20
(cd docs && ls)
cd src; ls; pwd
echo $?
ls src; echo "exit: $?"
[ -f README.md ] && echo yes
[ -d src ] || echo missing
test -f package.json && cat package.json
ls src\nls docs
git status\ngit log --oneline -3
# look around\nls
which python3 node
python3 --version; node --version
date +%Y-%m-%d
uname -a; whoami; id
printf '%s\n' one two
echo "a  b" | tr -s ' '
git ls-files | xargs wc -l
for f in src/*.py; do echo $f; done
echo $HOME
ps aux | grep node
"""
COMMANDS = [re.sub(r"\\n(?=ls|git)", "\n", line) for line in EVERYDAY.strip().splitlines()]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("everyday").resolve()
    for name in ("README.md", "package.json", "src/app.py", "src/util.py", "docs/guide.md"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("{}")
    (root / ".git" / "objects").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return root


def ruled(root: Path, command: str) -> Ruling:
    ask = Ask(AskId("a"), "approval", command, call=Call("command", "Bash", str(root), command))
    return decide(ask, (), Site(str(root)), PolicyEnv())


def test_few_of_ninety_everyday_commands_are_asked_about(workspace: Path) -> None:
    """The version before asked about 19 % of such a list; this one asks about 4 of 90."""
    asked = [command for command in COMMANDS if ruled(workspace, command).outcome != "allow"]
    assert len(COMMANDS) == 90
    assert len(asked) / len(COMMANDS) < MOST_ASKED, asked
    assert asked == [
        "git ls-files | xargs wc -l",
        "for f in src/*.py; do echo $f; done",
        "echo $HOME",
        "ps aux | grep node",
    ]
