"""A second look with fresh eyes: 150 commands that were written from the pages about rules and security alone.

The workspace is hostile: links lead out of it, and files are named like options.
"""

from __future__ import annotations

import pytest
from tests.policy.plan import Plan

OPTIONS_AS_NAMES = {
    "g1": "-oout",
    "g2": "--pre=.evil",
    "g3": "-delete",
    "g4": "b",
    "g5": "-i",
    "g6": "@list",
    "g7": "b",
    "g8": "--files0-from=a",
    "g9": "--output=a",
    "g10": "-f",
}
MUST_ASK = [
    "cd g1 && sort *",
    "cd g2 && rg x *",
    "cd g3 && find * -name x",
    "cd g4 && uniq *",
    "cd g5 && sed -n 1p *",
    "cd g6 && strings *",
    "cd g7 && xxd *",
    "cd g8 && wc *",
    "cd g9 && git diff *",
    "cd g10 && awk '{print}' *",
    "cat leak",
    "head -3 up/secret.txt",
    "grep -R root .",
    "rg --follow root",
    "find . -exec cat {} +",
    "find . -type l -exec head -1 {} \\;",
    "find . -follow -name passwd -exec wc -l {} +",
    "du -L etc",
    "tree -l etc",
    "diff README.md leak",
    "git diff /etc/passwd README.md",
    "git diff ../secret.txt README.md",
    "wc -l < ../secret.txt",
    "cd src && cd ../.. && cat secret.txt",
    "paste README.md leak",
    "cmp README.md up/secret.txt",
    "sort --compress-program=./evil README.md",
    "rg --hostname-bin ./evil x",
    "git log --show-signature",
    "git log --format=%G?",
    "git --exec-path=./x status",
    "git grep --open-files-in-pager=./evil x",
    "git cat-file --filters HEAD:a",
    "git submodule foreach ls",
    "git fetch --dry-run",
    "git ls-remote",
    "git remote show origin",
    "git config --file /etc/gitconfig --get a.b",
    "git hash-object -w README.md",
    "git archive HEAD",
    "git bisect run ./x",
    "tree -H . -o index.html",
    "sed -n '1e id' README.md",
    "sed 's/a/id/e' README.md",
    "sed -n 'R leak' README.md",
    "awk 'BEGIN{\"id\"|getline x; print x}'",
    "awk 'BEGIN{while((getline l < \"/etc/passwd\")>0) print l}'",
    "awk '{print | \"sh\"}' README.md",
    "awk '@load \"x\"; {print}' README.md",
    "gawk -i inplace '{print}' README.md",
    "jq --rawfile x /etc/passwd '$x' package.json",
    "jq -L . 'include \"evil\"; .' package.json",
    "md5sum -c sums.txt",
    "date -f leak",
    "diff3 --diff-program=./evil a b c",
    "file -z evil.gz",
    "true > README.md",
    "[ a > b ]",
    "test x 2> y",
    "ls 3> y",
    "cat $'leak'",
    "cat <(id)",
    "ls\r\nrm x",
    "ls # look\nrm -f x",
    "trap 'rm x' EXIT; ls",
    "hash -p ./evil ls; ls",
    "enable -f ./x y",
    "ls |& tee out",
    "cat README.md; env",
    "make -n",
    "go list ./...",
    "man -P ./evil ls",
    "git log --format='%G? %h'",
    "git show --pretty=%h%GK",
    "git branch --sort signature",
]
HARMLESS = [
    "ls -la src tests | head -20",
    "ls -1 | wc -l",
    "ls -d */",
    "ls -lt src | head",
    "ls package.json README.md 2>/dev/null",
    "find . -type f | wc -l",
    "find src -name '*.py' | sort",
    "find . -name node_modules -prune -o -type f -print | head -40",
    "find . -iname '*readme*'",
    "find . -empty -type f",
    "find tests -name 'test_*.py' -newer README.md",
    "find . -type f -size +1M -exec ls -lh {} +",
    "find . -type f -name '*.py' | xargs grep -l import",
    "grep -rn 'useState' src --include='*.tsx' | head -20",
    "grep -rln 'TODO\\|FIXME' . --include='*.py'",
    "grep -n 'version' package.json",
    "grep -rn --exclude-dir=node_modules 'console.log' . | wc -l",
    "grep -i error README.md || echo none",
    "grep -w main src/app.py",
    "grep -rnE '^(class|def) ' src | head -60",
    "rg -n --glob '!tests' 'requests.get' .",
    "rg -c import src | sort -t: -k2 -nr",
    "rg -U 'def main' -A 5 src/app.py",
    "rg --type-list | head -3",
    "rg -o 'https?://[^ ]+' README.md | sort -u",
    "cat package.json | grep -A 10 dependencies",
    "cat README.md | head -30; echo ---; cat src/app.py | head -30",
    "cat src/app.py 2>/dev/null || cat src/main.py",
    "cat -A README.md | head -5",
    "cat .gitignore",
    "head -c 200 README.md",
    "head -n 5 src/*.py",
    "tail -5 README.md",
    "tail -n 20 src/util.py | cat -n",
    "sed -n '1,5p;10,12p' src/app.py",
    "sed -e 's/[[:space:]]*$//' README.md | head",
    "sed '/^#/d' README.md",
    "awk 'length > 100' src/app.py",
    "awk '{s+=$1} END {print s}' README.md",
    "awk -F'\"' '/version/ {print $4}' package.json",
    "awk 'NR>=10 && NR<=20' src/app.py",
    "wc -c README.md package.json",
    "wc -l src/*.py | tail -1",
    "sort -u README.md | wc -l",
    "sort -t, -k3 README.md | head -3",
    "cut -c1-80 README.md",
    "tr -cd 'a-z\\n' < README.md | sort | uniq -c | sort -nr | head -5",
    "diff <(sort README.md) <(sort package.json)",
    "diff -q README.md package.json",
    "comm -12 README.md package.json",
    "jq -r '.scripts | keys[]' package.json",
    "jq '.dependencies | length' package.json",
    "git status -s | head",
    "git log --oneline --since='2 weeks ago' | wc -l",
    "git diff --name-only main...HEAD | grep test",
    "git diff --stat main",
    "git log -3 --stat --no-color",
    "git show --stat",
    "git log --all --oneline -- src/app.py",
    "git blame -w src/app.py | head -20",
    "git branch --sort=-committerdate | head",
    "git log --author=ann --oneline | head -5",
    "git diff HEAD~3 HEAD -- src",
    "git rev-parse --short HEAD",
    "git tag --sort=-v:refname | head -3",
    "git ls-files '*.py'",
    "git stash list && git status",
    "cd src && grep -rn import . | head",
    "cd tests && ls && cd .. && ls",
    "pwd; ls; git branch --show-current",
    "ls -la && git status && git log --oneline -3",
    "echo '== app'; sed -n '1,20p' src/app.py",
    "test -d src && ls src || echo 'no src'",
    "stat -c '%y %n' src/app.py",
    "du -sh src tests 2>/dev/null | sort -h",
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    plan = Plan(tmp_path_factory.mktemp("hostile").resolve())
    for name, target in (("leak", "/etc/passwd"), ("up", ".."), ("etc", "/etc")):
        (plan.root / name).symlink_to(target)
    for folder, name in OPTIONS_AS_NAMES.items():
        (plan.root / folder).mkdir()
        (plan.root / folder / name).write_text("x")
        (plan.root / folder / "a").write_text("x")
    return plan


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    plan = Plan(tmp_path_factory.mktemp("plain").resolve())
    for path in plan.root.iterdir():
        if path.is_symlink():
            path.unlink()
    return plan


def test_none_of_75_commands_that_do_more_than_look_passes(hostile: Plan) -> None:
    assert len(MUST_ASK) == 75
    assert [command for command in MUST_ASK if hostile.rule(command).outcome != "ask"] == []


def test_few_of_75_harmless_commands_are_asked_about(plain: Plan) -> None:
    assert len(HARMLESS) == 75
    assert [command for command in HARMLESS if plain.rule(command).outcome != "allow"] == [
        "find . -type f -name '*.py' | xargs grep -l import",
        "awk 'length > 100' src/app.py",
        "diff <(sort README.md) <(sort package.json)",
    ]
