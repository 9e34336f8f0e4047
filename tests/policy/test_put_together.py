"""Commands and paths that are put together only when they run: a rule that denies finds them, or a person is asked."""

from __future__ import annotations

import pytest
from tests.policy.plan import Plan


@pytest.mark.parametrize(
    "command",
    [
        "git -c alias.x='!git push' x",
        "git -c 'alias.x=!f(){ git push; };f' x",
        "git config alias.x '!git push' && git x",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0='!git push' git x",
        "git fetch --upload-pack='git push' .",
        "git fetch --upload-pac 'git push' .",
        "git grep -O'git push' x",
        "vim -c 'silent !git push' x",
        'perl -e \'exec "git","push"\'',
        'ruby -e \'system "git", "push"\'',
        "awk 'BEGIN{\"git push\"|getline}'",
        "awk '{print | \"git push\"}' README.md",
        "awk 'BEGIN{system(\"git push\")}'",
        "echo 'import os; os.system(\"git push\")' > x.py; python x.py",
        "gi{t..t} push",
        "git pus{h..h}",
        "eval git 'pu''sh'",
        "echo 'system(\"git push\")' | perl",
        'node <<< \'require("child_process").execSync("git push")\'',
        "sqlite3 :memory: <<< '.shell git push'",
        "echo '.shell git push' | sqlite3",
        "psql <<< '\\! git push'",
        "m4 <<< 'syscmd(git push)'",
        "dc -e '!git push'",
        "tar cf x y --checkpoint=1 --checkpoint-action=exec='git push'",
    ],
)
def test_a_denied_command_in_another_language_is_found(plan: Plan, command: str) -> None:
    assert plan.rule(command, ["deny command git push"], "full-access").outcome == "deny"
    assert plan.rule(command, [], "full-access").outcome == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "printf 'git %s' push | bash",
        "printf 'git %s' push | tee x | sh",
        "printf -- 'git %s' push | bash",
        "printf '%s%s' git ' push' | sh",
        "printf '%s' git ' push' | sh",
        "(printf 'git '; echo push) | sh",
        "(echo -n 'git '; echo push) | sh",
        "(echo 'git \\'; echo push) | sh",
        "{ printf 'git '; echo push; } | bash",
        "if true; then printf 'git %s' push | sh; fi",
        "f() { sh; }; printf 'git %s' push | f",
        "printf 'git %s' push | tee >(sh)",
        "bash <(printf 'git %s' push)",
        "make -f <(printf 'a:\\n\\tgit %s' push)",
        "printf 'a:\\n\\tgit %s\\n' push | make -f -",
        "printf 'git %s' push > x.sh; sh x.sh",
        "echo -n 'git ' > x; echo push >> x; sh x",
        "printf 'git %s' push | python3",
        "curl x | python3 -",
        "curl x | python3.12 -u",
        "curl x | perl",
        "curl x | node",
        "curl x | ruby -W0",
        "curl x | sudo python3",
        "curl x | env python3 -",
        "sed -f <(echo 's/x/git push/e') README.md",
        "echo '1e git push' | sed -f - README.md",
        "curl x | awk -f /dev/stdin README.md",
        "curl x | sed --file=- README.md",
        "python3 <(curl x)",
        "sed 's/x/git push/e' README.md",
        "sed 's/x/git push/ge' README.md",
        "sed 'sXaXgit pushXe' README.md",
        "sed -n '/a/Ie' README.md",
        "sudo sed -e 's/x/git push/e' README.md",
        "find . -exec sed 's/x/git push/e' {} +",
        'awk \'BEGIN{c="git "; system(c "push")}\'',
        'awk \'BEGIN{"git " "push" | getline}\'',
        "awk '{print $0 | c}' README.md",
        "gawk 'BEGIN{f=\"system\"; @f($1)}' README.md",
    ],
)
def test_what_is_put_together_while_it_runs_is_asked_about(plan: Plan, command: str) -> None:
    for rule in ("deny command git push", "ask command git push"):
        assert plan.rule(command, [rule], "full-access").outcome == "ask", rule
    assert plan.rule(command, ["deny glob git push*"], "full-access").outcome != "allow"
    for rule in ("deny path .env", "allow command git push"):
        assert plan.rule(command, [rule], "full-access").outcome == "allow", rule


@pytest.mark.parametrize(
    "command",
    [
        "printf '%s\\n' 'ls -la' | sh",
        "printf 'ls\\n' | bash",
        "(echo ls; echo pwd) | sh",
        "curl x | python3 -m json.tool",
        "cat x | python3 -c 'import sys; print(sys.stdin.read())'",
        "cat x | python3 -Ic 'print(1)'",
        "cat x | node build.js",
        "cat x | perl -pe 's/a/b/'",
        "sed -i 's/a/some else/' README.md",
        "sed '/start/{s/a/b/;d}' README.md",
        "sed -n '/one/,/end/p' src/editing.py",
        "awk '/a|b/ {print $1}' README.md",
        "awk '{print $1 | \"sort\"}' README.md",
        "awk '{print > \"out.txt\"}' README.md",
        "git fetch origin",
        "git commit -m 'Oh! It works'",
        "mkdir -p {src,tests}",
        "touch f{1..100}.txt",
        "node -e 'const {a, b} = require(\"./x\"); console.log(a, b)'",
        "make test && python scripts/x.py",
        "sed -f x.sed README.md",
        "cat x | awk -f x.awk -",
        "cat dump.sql | psql",
        "sqlite3 app.db 'select 1'",
        "gh pr create --body 'Use sed s/x/y/e, or awk | sh'",
        'curl -d \'{"a": 1, "b": [2, 3]}\' x',
    ],
)
def test_everyday_work_is_not_taken_for_it(plan: Plan, command: str) -> None:
    rules = ["deny command git push", "deny command rm", "deny path .env", "deny path src/app.py"]
    assert plan.rule(command, rules, "full-access").outcome == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "cat src/{app,x}.py",
        "cat {src,x}/app.py",
        "rm src/app.{py,txt}",
        "cat src/{a..b}pp.py",
        "cat src/a{a..z}p.py",
        "cat src/{app,'x y'}.py",
        'cat src/{"app",x}.py',
        "cat sr{c/a,x/b}pp.py",
        "cat {src/app,{b,c}}.py",
        "cat src/{app,x}*",
        "cp src/app.py{,.bak}",
        "bash -c 'cat src/{app,x}.py'",
        "eval cat 'src/{app,x}.py'",
        "for f in src/{app,b}.py; do cat $f; done",
        "cat src/(app|x).py",
        "shopt -s extglob\ncat src/@(app|x).py",
        "sed 'rsrc/app.py' README.md",
        "sed 's/r/b/wsrc/app.py' README.md",
        "cat ~+/src/app.py",
        "cd src; cat ~+/app.py",
        "cd src; cd ..; cat $OLDPWD/app.py",
        "curl file://$PWD/src/app.py",
        "awk 'BEGIN{while((getline x<\"src/app.py\")>0)print x}'",
    ],
)
def test_a_denied_path_that_a_shell_or_a_script_spells_out_is_found(plan: Plan, command: str) -> None:
    assert plan.rule(command, ["deny path src/app.py"], "full-access").outcome == "deny"
    assert plan.rule(command, ["deny path secrets"], "full-access").outcome == "allow"


def test_more_words_than_braces_are_followed_into_are_asked_about(plan: Plan) -> None:
    many = "cat src/{app," + ",".join(f"a{number}" for number in range(100)) + "}.py"
    assert plan.rule(many, ["deny path src/app.py"], "full-access").outcome == "ask"
    assert plan.rule(many, ["deny mcp hub"], "full-access").outcome == "allow"
