"""Lists programs that run other programs or texts, and options that make a program do so or write files.

Rules that deny look through launchers and into texts for shells. A rule that allows a program by its name does not cover
the options listed here, joined (`sort -uo`), shortened (`sort --out`) or with a value (`sed -i.bak`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from pilothouse.policy.reader_table import GIT, READERS, word_set

SHELLS = word_set("sh bash dash zsh ksh mksh ash fish csh tcsh pdksh rbash su")
LAUNCHERS = dict.fromkeys(("chroot", "flock", "ssh", "taskset"), 1) | dict.fromkeys(
    word_set(
        "sudo doas env nice ionice nohup timeout time command builtin exec stdbuf setsid unshare runuser coproc watch trap xargs "
        "parallel busybox toybox systemd-run chronic strace ltrace pkexec script setarch chrt nsenter"
    ),
    0,
)
"""Programs that run the program, or the text, that they are given, and how many words stand before it."""
DEFINERS = word_set("alias hash enable at batch crontab ed red ex m4 expect")
"""Programs that give commands other names, or run what they read."""
KEEP_WORDS = frozenset(READERS) | word_set(
    "echo printf find fd test [ [[ mkdir touch cp mv rm ln chmod chown tee pytest ruff mypy black tsc eslint cd pushd "
    "export set unset for read true false curl wget"
)
"""Programs that run none of the words that they are given, unless an option below says so, or they are launchers."""
GIT_WORDS = frozenset(GIT) | word_set(
    "add commit push pull fetch checkout switch merge reset tag stash rm mv clean restore revert cherry-pick"
)
"""Subcommands of git that run none of their words."""
INTERPRETERS = word_set(
    "python pypy node nodejs deno ruby irb perl php lua luajit bash sh zsh dash ksh mksh ash csh tcsh fish rbash pwsh "
    "Rscript R julia tclsh wish guile racket sbcl clisp ghci scala groovy jshell elixir iex erl ocaml swipl octave tsx ts-node "
    "ipython"
)
NEVER_REMEMBERED = frozenset(LAUNCHERS) | word_set(
    "su eval source . alias unalias export set unset gdb expect osascript cd pushd popd capsh entr "
    "rm rmdir unlink shred srm dd truncate wipefs mkfs fdisk parted sgdisk mkswap chown chgrp chmod setfacl mount umount insmod "
    "rmmod modprobe sysctl systemctl launchctl shutdown reboot halt poweroff kill pkill killall crontab iptables nft ufw useradd "
    "userdel usermod visudo terraform tofu pulumi ansible ansible-playbook dropdb dropuser pilothouse"
)
"""Programs that run something else, or whose deeds cannot be taken back: they are allowed once, and never for good."""
NO_RETURN: Mapping[str, frozenset[str]] = {
    name: word_set(words)
    for names, words in {
        "git": "push clean filter-branch filter-repo gc prune update-ref expire rebase --hard --merge --keep restore --force -f "
        "--discard-changes -d -D --delete drop clear -c",
        "find": "-delete -exec -execdir -ok -okdir -fprint -fprintf -fprint0 -fls",
        "docker podman": "rm rmi prune kill down run exec",
        "kubectl helm aws gcloud az gsutil rclone gh": "delete drain apply replace scale exec uninstall upgrade rm destroy "
        "terminate purge sync merge close release",
        "npm pnpm yarn bun cargo gem poetry uv twine flit hatch": "publish upload unpublish yank",
        "rsync": "--delete --delete-after --delete-before --remove-source-files",
        "mv cp": "-f --force",
    }.items()
    for name in names.split()
}
"""Words with which an everyday program does what cannot be taken back, at any position."""

REMOVERS = word_set("rm shred rsync")
REMOVES_UNNAMED = tuple(map(word_set, ("-delete", "git clean", "find rm", "fd rm", "xargs rm")))
"""Words that together remove files which no word names."""


class Options(Struct, frozen=True):
    """`letters` may be bundled behind one dash; a letter of `values` ends the bundle with its value."""

    letters: str
    values: str
    long: tuple[str, ...]
    begins: tuple[str, ...]
    old: bool


def _parse_options(text: str) -> dict[str, Options]:
    """Parse lines of `PROGRAM OPTIONS`: `-abc`, `-abc:` harmless ones with a value, `--name`, `^-x…`, `old` as in `tar xzf`."""
    found: dict[str, Options] = {}
    for row in re.sub(r"\n[ \t]+", " ", text).strip().splitlines():
        names, *words = row.split()
        short = [word[1:] for word in words if word[:1] == "-" and word[1:2] != "-"]
        options = Options(
            "".join(word for word in short if word[-1] != ":"),
            "".join(word[:-1] for word in short if word[-1] == ":"),
            tuple(word for word in words if word.startswith("--")),
            tuple(word[1:] for word in words if word[0] == "^"),
            "old" in words,
        )
        found.update(dict.fromkeys(names.replace("+", " ").split(","), options))
    return found


ANOTHER_PROGRAM = _parse_options("""
find ^-delete ^-exec ^-ok ^-fprint ^-fls
fd -xX -dtEeSo: --exec --exec-batch
sort -oT -ktS: --output --compress-program --temporary-directory
git -O -mCFSGLUut: ^-c --config-env --exec-path --exec --output --ext-diff --upload-pack --receive-pack --open-files-in-pager
  --output-directory --extcmd --template
git+rebase -x -C:
git+difftool -x
git+clone -cu
git+archive,git+format-patch -o
rg --pre --hostname-bin
tar -IF old --to-command --checkpoint-action --use-compress-program --rsh-command --rmt-command --info-script
  --new-volume-script
sed -if -el: --in-place --file
awk,gawk,mawk -fiElopdDe -Fv: --file --include --load --exec --source --profile --dump-variables
xxd -r -cglos:
tree -o
date -s -dfrI: --set
make,gmake -fE -jlIoWC: --file --makefile --eval
go ^-exec ^--exec ^-toolexec ^--toolexec ^-vettool ^--vettool ^-ldflags ^--ldflags ^-overlay ^--overlay
cargo --config --manifest-path
npm --script-shell --node-options --git --call
rsync -e -fTMB: --rsh --rsync-path
split --filter
prettier --plugin --config
eslint --plugin --rulesdir --resolve-plugins-relative-to --config -c
pandoc -FL --filter --lua-filter --pdf-engine
pytest -pc --rootdir --confcutdir --override-ini
""")
MAX_NAME = 64
_VERSION = re.compile(r"-?\d[\d.]*$")
_LETTERS = re.compile(r"-[A-Za-z0-9]")


@lru_cache(maxsize=1024)
def plain_name(program: str) -> str:
    """Strip folder and version: `.venv/bin/python3.12` is `python`."""
    name = program.rpartition("/")[2]
    return name if len(name) > MAX_NAME else _VERSION.sub("", name) or name


def is_another_program(texts: Sequence[str], named: Sequence[str]) -> bool:
    """Tell whether an option makes the program do more than a rule that names `named` covers."""
    name = texts[0].rpartition("/")[2]
    found = [ANOTHER_PROGRAM.get(name), ANOTHER_PROGRAM.get(" ".join((name, *texts[1:2])))]
    return any(options is not None and _has_one(options, texts, named) for options in found)


def _has_one(options: Options, texts: Sequence[str], named: Sequence[str]) -> bool:
    if options.old and len(texts) > 1 and not texts[1].startswith("-") and _has_letter(options, texts[1]):
        return texts[1] not in named
    return any(text[:1] == "-" and text not in named and _is_one(options, text) for text in texts[1:])


def _is_one(options: Options, text: str) -> bool:
    if text.startswith(options.begins or "\0"):
        return True
    if text.startswith("--"):
        name = text.partition("=")[0]
        return len(name) > 2 and any(one.startswith(name) for one in options.long)
    return _LETTERS.match(text) is not None and _has_letter(options, text[1:])


def _has_letter(options: Options, letters: str) -> bool:
    first = next((letter for letter in letters if letter in options.letters + options.values), "\0")
    return first in options.letters
