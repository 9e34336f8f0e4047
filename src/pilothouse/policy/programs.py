"""Lists programs that run other programs or texts.

Rules that deny look through launchers and into texts for shells. No allow rule is offered for a program that may run
anything; where the second word decides, `BY_TWO` lists the safe ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from pilothouse.policy.reader_table import GIT, READERS, word_set

SHELLS = word_set("sh bash dash zsh ksh mksh ash fish csh tcsh pdksh rbash su")
LAUNCHERS: Mapping[str, int] = {
    **dict.fromkeys(
        [
            "sudo",
            "doas",
            "env",
            "nice",
            "ionice",
            "nohup",
            "timeout",
            "time",
            "command",
            "builtin",
            "exec",
            "stdbuf",
            "setsid",
            "unshare",
            "runuser",
            "coproc",
            "watch",
            "trap",
            "xargs",
            "parallel",
            "busybox",
            "toybox",
            "systemd-run",
            "chronic",
            "strace",
            "ltrace",
            "pkexec",
            "script",
            "setarch",
            "chrt",
            "nsenter",
        ],
        0,
    ),
    **dict.fromkeys(["chroot", "flock", "ssh", "taskset"], 1),
}
"""Programs that run the program, or the text, that they are given, and how many words stand before it."""
ARGUMENT_ADDERS = word_set("xargs parallel")
"""Launchers that add to its words what they read."""
DEFINERS = word_set("alias hash enable at batch crontab ed red ex m4 expect")
"""Programs that give commands other names, or run what they read."""
KEEP_WORDS = frozenset(READERS) | word_set(
    "echo printf find fd test [ mkdir touch cp mv rm ln chmod chown tee pytest ruff mypy black tsc eslint cd pushd "
    "export set unset for read true false curl wget"
)
"""Programs that run none of the words that they are given, unless an option says so (`options.py`), or they are launchers."""
GIT_WORDS = frozenset(GIT) | word_set(
    "add commit push pull fetch checkout switch merge reset tag stash rm mv clean restore revert cherry-pick"
) - {"config"}
"""Subcommands of git that run none of their words."""
WRAPPERS = word_set(
    "env command builtin nohup time sudo nice ionice chrt timeout stdbuf doas su xargs exec eval source . setsid watch "
    "parallel trap alias unalias export set unset ssh script flock unshare chroot nsenter strace ltrace gdb expect "
    "busybox toybox osascript cd pushd popd coproc pkexec runuser capsh setarch taskset systemd-run chronic entr"
)
"""Programs that run something else; no allow rule is offered for them."""
INTERPRETERS = word_set(
    "python pypy node nodejs deno ruby irb perl php lua luajit bash sh zsh dash ksh mksh ash csh tcsh fish rbash pwsh "
    "Rscript R julia tclsh wish guile racket sbcl clisp ghci scala groovy jshell elixir iex erl ocaml swipl octave tsx ts-node "
    "ipython"
)
OPEN = word_set(
    "awk gawk mawk nawk sed gsed ed red ex vi vim view nvim vimdiff rvim emacs emacsclient nano pico joe micro kak hx "
    "less more most man info sqlite sqlite3 psql mysql mariadb mongo mongosh redis-cli duckdb clickhouse-client sqlplus "
    "tar bsdtar cpio zip unzip rsync scp sftp find fd fdfind rg ag ack git-lfs "
    "m4 bc dc gcc cc clang ld cpp ghc rustc javac java kotlin kotlinc ant sbt bazel buck ninja meson scons cmake ctest tox "
    "pre-commit gradlew mvnw gmake nmake qmake invoke fab ansible ansible-playbook vagrant packer nix nix-shell nix-build guix "
    "conda mamba micromamba pixi easy_install gem cpan cpanm luarocks opam stack cabal lein npm-run-all concurrently "
    "nodemon onchange watchexec direnv dotenv foreman overmind honcho tmux screen byobu zellij at batch crontab "
    "socat nc ncat netcat telnet openssl gpg tcpdump tshark wireshark nmap curl wget aria2c ftp lftp "
    "hg svn bzr fossil pijul puppet chef salt aws gcloud az ssm-session fzf peco dialog rlwrap unbuffer valgrind perf "
    "lldb rr qemu install start-stop-daemon run-parts logrotate rpm dpkg snap flatpak pacman yum dnf zypper apk emerge "
    "latex pdflatex xelatex lualatex tex latexmk gnuplot ffmpeg convert magick yq"
)
"""Programs that accept commands, programs or output files among their words."""
MODULES = word_set(
    "timeit cProfile profile pdb code runpy trace pip ensurepip coverage IPython ipdb doctest idlelib zipapp"
)
"""Modules of Python that run other code."""
BY_TWO: Mapping[str, frozenset[str]] = {
    name: word_set(words)
    for names, words in {
        "git": "add apply branch checkout cherry-pick commit fetch merge mv pull reset restore revert rm stash switch tag "
        "worktree " + " ".join(GIT),
        "jj": "abandon bookmark commit describe diff edit log new show squash status",
        "npm": "audit ci ls outdated prune start stop test view",
        "pnpm yarn bun": "audit build dev format lint ls outdated start test typecheck",
        "cargo": "bench build check clippy doc fmt metadata test tree",
        "go": "build doc fmt list mod test vet",
        "docker podman": "build images inspect logs ps pull",
        "kubectl": "describe get logs top",
        "gh": "search status",
        "uv": "build lock sync tree version",
        "pip pip3": "check freeze list show",
        "poetry": "build check lock show version",
        "hatch": "build version",
        "dotnet": "build format restore test",
        "terraform tofu": "fmt plan validate",
        "helm": "lint list status",
        "brew apt": "info list search show",
        "composer bundle": "check list show validate",
        "mix": "compile format test",
        "swift flutter": "analyze build test",
    }.items()
    for name in names.split()
}
MAX_NAME = 64
_VERSION = re.compile(r"-?\d[\d.]*$")


@lru_cache(maxsize=1024)
def plain_name(program: str) -> str:
    """Strip folder and version: `.venv/bin/python3.12` is `python`."""
    name = program.rpartition("/")[2]
    if len(name) > MAX_NAME:
        return name
    return name if name in OPEN or name in BY_TWO else _VERSION.sub("", name) or name


def is_open(program: str) -> bool:
    name = plain_name(program)
    return name in OPEN or name in INTERPRETERS or name in WRAPPERS or name in BY_TWO
