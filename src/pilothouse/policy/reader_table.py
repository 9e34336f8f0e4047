"""Lists the programs that only read, and the options with which they do no more.

An option that stands here neither writes, nor runs another program, nor follows links out of a folder, nor reads a list
of names from a file. What does not stand here is not thought about: it asks. Names are written out, for programs
accept shortened ones, and a shortened one is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, structs

Operands = Literal["none", "text", "paths", "text then paths", "stamp"]


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Reader(Struct, frozen=True):
    """`flags` and `values` are letters, without and with a value; `long` and `long_values` are words."""

    operands: Operands
    flags: str = ""
    values: str = ""
    long: frozenset[str] = frozenset()
    long_values: frozenset[str] = frozenset()
    numbers: bool = False
    """`-20` is an option."""
    most: int = 1000
    """Maximum number of operands. For some programs one more would be a file to write."""
    deep: str = ""
    """Options that make it read everything below a folder; `*` if it always does."""
    attached: str = ""
    """Letters whose value, a number, must be attached."""
    exact: frozenset[str] = frozenset()
    """Options that are known only in this exact spelling."""
    apart: bool = False
    """The value of a letter is always the next word; what is attached to the letter are more options."""


def _row(
    operands: Operands,
    flags: str = "",
    values: str = "",
    long: str = "",
    long_values: str = "",
    *,
    numbers: bool = False,
    most: int = 1000,
    deep: str = "",
    attached: str = "",
    exact: str = "",
) -> Reader:
    return Reader(
        operands,
        flags,
        values,
        word_set(long),
        word_set(long_values),
        numbers,
        most,
        deep,
        attached,
        word_set(exact),
    )


_SUMS = _row("paths", "bt", "", "binary text tag zero", deep="")
_GREP = _row(
    "text then paths",
    "abcEFGhHiIlLnoPqrsTUvwxyzZ",
    "eABCm",
    "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match word-regexp "
    "line-regexp count files-with-matches files-without-match only-matching quiet silent no-messages byte-offset "
    "with-filename no-filename line-number initial-tab null text recursive null-data color colour line-buffered",
    "regexp max-count after-context before-context context include exclude exclude-dir color colour binary-files label",
    numbers=True,
    deep="r recursive",
)

_TREE = structs.replace(
    _row(
        "paths",
        "adfFghiDpsuCnAQNrtUvxJX",
        "LPI",
        "noreport dirsfirst filesfirst gitignore prune du matchdirs ignore-case inodes device",
        "filelimit sort charset",
        attached="L",
    ),
    apart=True,
)

READERS: Mapping[str, Reader] = {
    "arch": _row("none"),
    "basename": _row("text", "az", "s", "multiple zero", "suffix"),
    "b2sum": _SUMS,
    "cat": _row(
        "paths",
        "AbeEnstTuv",
        "",
        "number number-nonblank show-all show-ends show-nonprinting show-tabs squeeze-blank",
    ),
    "cksum": _row("paths"),
    "cmp": _row("paths", "bls", "in", "print-bytes verbose silent quiet", "bytes ignore-initial", most=2),
    "column": _row("paths", "tx", "sco", "table fillrows", "separator output-separator output-width"),
    "comm": _row("paths", "123z", "", "check-order nocheck-order total zero-terminated", "output-delimiter"),
    "cut": _row(
        "paths",
        "nsz",
        "bcdf",
        "complement only-delimited zero-terminated",
        "bytes characters fields delimiter output-delimiter",
    ),
    "date": _row("stamp", "uR", "d", "utc universal rfc-email", "date iso-8601 rfc-3339"),
    "df": _row(
        "text", "ahHiklTP", "tx", "all human-readable inodes local portability print-type si total", "type"
    ),
    "dirname": _row("text", "z", "", "zero"),
    "du": _row(
        "paths",
        "abchHkmPsSx0",
        "Bdt",
        "all apparent-size bytes human-readable summarize total one-file-system si null",
        "block-size max-depth exclude threshold time",
    ),
    "egrep": _GREP,
    "false": _row("none"),
    "fgrep": _GREP,
    "file": _row(
        "paths", "bhikLNnr", "", "brief mime mime-type mime-encoding no-dereference dereference raw"
    ),
    "fold": _row("paths", "bs", "w", "bytes spaces", "width"),
    "free": _row("none", "bkmght", "", "bytes kibi mebi gibi human total wide"),
    "grep": _GREP,
    "groups": _row("none"),
    "head": _row("paths", "qvz", "nc", "quiet silent verbose zero-terminated", "lines bytes", numbers=True),
    "hexdump": _row("paths", "bcCdovx", "ns", "canonical one-byte-octal"),
    "hostname": _row("none", "fsiId", "", "fqdn short"),
    "id": _row("text", "agGnruz", "", "user group groups name real zero"),
    "ls": _row(
        "paths",
        "aAbBcCdfFgGhHiklmnNopqQrRsStuUvxXZ1",
        "ITw",
        "all almost-all author escape directory classify file-type format full-time group-directories-first no-group "
        "human-readable si dereference-command-line indicator-style inode literal numeric-uid-gid hide-control-chars "
        "quote-name reverse recursive size sort time time-style color context zero",
        "block-size color format hide ignore indicator-style quoting-style sort time time-style tabsize width",
    ),
    "md5sum": _SUMS,
    "nl": _row("paths", "p", "bdfhilnsvw", "no-renumber", "body-numbering number-format number-width"),
    "nproc": _row("none", "", "", "all", "ignore"),
    "od": _row("paths", "abcdfilosxv", "AjNt", "", "address-radix format read-bytes skip-bytes"),
    "paste": _row("paths", "sz", "d", "serial zero-terminated", "delimiters"),
    "printf": _row("text"),
    "pwd": _row("none", "LP"),
    "readlink": _row(
        "text", "efmnqsvz", "", "canonicalize canonicalize-existing canonicalize-missing no-newline"
    ),
    "realpath": _row(
        "text", "emLPqsz", "", "canonicalize-existing canonicalize-missing no-symlinks zero", "relative-to"
    ),
    "rev": _row("paths"),
    "rg": _row(
        "text then paths",
        "abcFHhiIlNnopPqsSuUVvwx0.",
        "eABCgjmMtTEdr",
        "after-context auto-hybrid-regex block-buffered byte-offset case-sensitive column count count-matches crlf "
        "files files-with-matches files-without-match fixed-strings glob-case-insensitive heading help hidden "
        "ignore-case invert-match json line-buffered line-number line-regexp max-columns-preview mmap multiline "
        "multiline-dotall no-config no-filename no-heading no-hidden no-ignore no-ignore-vcs no-ignore-parent "
        "no-ignore-global no-ignore-dot no-line-number no-messages no-mmap no-require-git null one-file-system "
        "only-matching passthru pcre2 pretty quiet smart-case sort-files stats text trim type-list unrestricted "
        "version vimgrep with-filename word-regexp",
        "after-context before-context color colors context encoding engine field-context-separator "
        "field-match-separator glob iglob max-columns max-count max-depth max-filesize regexp replace sort sortr "
        "threads type type-not type-add type-clear",
        deep="*",
    ),
    "seq": _row("text", "w", "fs", "equal-width", "format separator", numbers=True),
    "sha1sum": _SUMS,
    "sha224sum": _SUMS,
    "sha256sum": _SUMS,
    "sha384sum": _SUMS,
    "sha512sum": _SUMS,
    "sleep": _row("text"),
    "sort": _row(
        "paths",
        "bcCdfghiMmnRrsuVz",
        "ktS",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort ignore-nonprinting "
        "month-sort numeric-sort random-sort reverse version-sort check merge stable unique zero-terminated",
        "key field-separator sort buffer-size check parallel",
    ),
    "stat": _row("paths", "fLt", "c", "file-system dereference terse", "format printf"),
    "strings": _row("paths", "afow", "nte", "all print-file-name", "bytes radix encoding"),
    "sum": _row("paths", "rs", "", "sysv"),
    "tac": _row("paths", "br", "s", "before regex", "separator"),
    "tail": _row("paths", "qvz", "nc", "quiet silent verbose zero-terminated", "lines bytes", numbers=True),
    "tr": _row("text", "cCdst", "", "complement delete squeeze-repeats truncate-set1"),
    "tree": _TREE,
    "true": _row("none"),
    "type": _row("text", "afptP"),
    "uname": _row(
        "none", "asnrvmpio", "", "all kernel-name nodename kernel-release machine operating-system"
    ),
    "uniq": _row(
        "paths",
        "cdDiuz",
        "fsw",
        "count repeated ignore-case unique zero-terminated",
        "skip-fields skip-chars",
        most=1,
    ),
    "uptime": _row("none", "ps", "", "pretty since"),
    "wc": _row("paths", "clmLw", "", "bytes chars lines max-line-length words"),
    "which": _row("text", "a", "", "all"),
    "whoami": _row("none"),
    "xxd": _row("paths", "", "cglos", most=1, exact="-a -b -E -i -u -p -ps"),
}

_LOG = (
    "oneline graph decorate no-decorate all branches tags remotes stat shortstat numstat name-only name-status summary patch "
    "no-patch raw abbrev-commit no-abbrev-commit reverse merges no-merges first-parent follow date-order topo-order "
    "author-date-order left-right cherry-pick cherry-mark ignore-case regexp-ignore-case extended-regexp fixed-strings "
    "perl-regexp all-match invert-grep full-history simplify-by-decoration walk-reflogs color no-color no-ext-diff "
    "no-textconv word-diff cached staged merge-base patch-with-stat histogram patience minimal full-index binary "
    "ignore-all-space ignore-space-change ignore-blank-lines ignore-space-at-eol find-renames find-copies no-renames "
    "no-prefix compact-summary dirstat check quiet exit-code text pickaxe-all pickaxe-regex relative root boundary "
    "no-walk no-notes ignore-submodules submodule no-color-moved color-moved default-prefix use-mailmap source"
)
_LOG_VALUES = (
    "max-count skip since until after before author committer grep format pretty date stat abbrev diff-filter unified color "
    "decorate word-diff word-diff-regex diff-algorithm find-renames find-copies inter-hunk-context min-parents max-parents "
    "relative color-moved submodule ignore-submodules line-prefix encoding dirstat glob exclude branches tags remotes"
)
_LOGS = _row("text", "abcegilmpqrstuvwzEFPWMCD", "nSGL", _LOG, _LOG_VALUES, numbers=True, attached="UMCX")

SEPARATE = word_set(
    "after after-context author before before-context bytes context exclude glob grep iglob include lines max-columns "
    "max-count max-depth regexp replace since sort type type-not until"
)
"""Long options whose value may be the next word. For others, some programs take that word as an operand."""

GIT: Mapping[str, Reader] = {
    "blame": _row(
        "text",
        "bcefFlnpstwMC",
        "L",
        "root show-stats incremental porcelain line-porcelain show-name show-email",
        "date abbrev",
    ),
    "branch": _row(
        "none",
        "alrqv",
        "",
        "all remotes list verbose show-current no-color no-column color ignore-case",
        "contains no-contains merged no-merged points-at sort format abbrev color",
    ),
    "cat-file": _row("text", "tesp", most=2),
    "check-ignore": _row("text", "qvn", "", "quiet verbose non-matching no-index"),
    "count-objects": _row("none", "vH", "", "verbose human-readable"),
    "describe": _row(
        "text",
        "",
        "",
        "all tags contains always long exact-match first-parent dirty",
        "abbrev candidates match exclude dirty",
    ),
    "diff": _LOGS,
    "diff-tree": _row("text", "rtvpsmcz", "", _LOG, _LOG_VALUES, attached="UMC"),
    "for-each-ref": _row(
        "text", "", "", "ignore-case", "count sort format points-at merged no-merged contains"
    ),
    "grep": _row(
        "text",
        "acEFGhHiIlLnoPpqrvwWz",
        "eABCm",
        "cached untracked no-exclude-standard exclude-standard text ignore-case word-regexp invert-match full-name "
        "extended-regexp basic-regexp perl-regexp fixed-strings line-number column files-with-matches name-only "
        "files-without-match only-matching count color no-color break heading show-function function-context all-match "
        "and or not quiet recursive",
        "context after-context before-context max-depth max-count threads color",
        numbers=True,
    ),
    "log": _LOGS,
    "ls-files": _row(
        "text",
        "cdmoiskutvfz",
        "x",
        "cached deleted modified others ignored stage killed unmerged exclude-standard full-name error-unmatch "
        "directory no-empty-directory eol deduplicate recurse-submodules",
        "exclude abbrev format",
    ),
    "ls-tree": _row(
        "text", "drtlz", "", "long name-only name-status object-only full-name full-tree", "abbrev format"
    ),
    "merge-base": _row("text", "a", "", "all octopus independent is-ancestor fork-point"),
    "name-rev": _row("text", "", "", "tags name-only no-undefined always", "refs exclude"),
    "rev-list": _row(
        "text", "", "n", _LOG + " count objects parents children timestamp", _LOG_VALUES, numbers=True
    ),
    "rev-parse": _row(
        "text",
        "q",
        "",
        "verify quiet short abbrev-ref symbolic symbolic-full-name all branches tags remotes show-toplevel show-prefix "
        "show-cdup git-dir absolute-git-dir git-common-dir is-inside-git-dir is-inside-work-tree is-bare-repository "
        "is-shallow-repository show-superproject-working-tree",
        "short abbrev-ref default prefix since until git-path",
    ),
    "shortlog": _row(
        "text", "sneciw", "", "summary numbered email merges no-merges", "since until group format"
    ),
    "show": _LOGS,
    "show-ref": _row(
        "text", "dqs", "", "heads tags branches verify hash head dereference quiet", "abbrev hash"
    ),
    "status": _row(
        "text",
        "sbuvz",
        "",
        "short branch show-stash porcelain long verbose ignored untracked-files no-renames renames ahead-behind "
        "no-ahead-behind column no-column",
        "porcelain untracked-files ignored ignore-submodules find-renames column",
        exact="-uno -uall -unormal -sb -bs",
    ),
    "whatchanged": _LOGS,
}
"""Subcommands that only read. Options that write (`--output`) or run something (`--ext-diff`, `-O`) are not here."""
GIT_PATCHES = word_set(
    "p u U c m L W S G D patch unified patch-with-stat word-diff word-diff-regex binary check text inter-hunk-context"
)
"""Options with which git prints or searches contents of files."""
GIT_NAMES = word_set(
    "s no-patch stat shortstat numstat name-only name-status summary raw dirstat compact-summary quiet"
)
"""Options with which `git diff` prints names of files and no contents."""
TWO = word_set(
    "git jj bun bunx npx npm pnpm yarn cargo go docker podman kubectl gh uv uvx pip pip3 pipx poetry hatch make just task mvn "
    "gradle dotnet terraform tofu helm brew apt apt-get rustup composer bundle rake mix swift flutter"
)
"""Programs whose second word says what they do."""
GIT_FIXED: frozenset[tuple[str, ...]] = frozenset(
    {
        ("remote",),
        ("remote", "-v"),
        ("remote", "--verbose"),
        ("remote", "get-url", "origin"),
        ("reflog",),
        ("stash", "list"),
        ("tag",),
        ("tag", "-l"),
        ("tag", "--list"),
        ("worktree", "list"),
        ("--version",),
        ("version",),
    }
)
"""Commands that only read in this exact form."""

FIND_TESTS = word_set(
    "-amin -anewer -atime -cmin -cnewer -ctime -gid -group -ilname -iname -inum -ipath -iregex -links -lname -mmin "
    "-mtime -name -newer -path -perm -regex -regextype -samefile -size -type -uid -used -user -wholename -xtype "
    "-maxdepth -mindepth -printf"
)
"""Tests and actions of `find` with one value."""
FIND_FLAGS = word_set(
    "-depth -mount -xdev -noleaf -daystart -empty -executable -readable -writable -false -true -nogroup -nouser "
    "-print -print0 -ls -prune -quit -not -a -and -o -or ! ( ) , -ignore_readdir_race"
)

VERSIONS: Mapping[str, frozenset[str]] = {
    name: frozenset({"--version", *more})
    for name, more in {
        "bun": ("-v",),
        "clang": (),
        "cmake": (),
        "deno": (),
        "docker": (),
        "gcc": (),
        "gh": (),
        "java": ("-version",),
        "jq": (),
        "make": (),
        "node": ("-v",),
        "npm": ("-v",),
        "pip": (),
        "pip3": (),
        "psql": (),
        "python": ("-V",),
        "python3": ("-V",),
        "rg": (),
        "ruby": (),
        "sqlite3": (),
        "uv": (),
    }.items()
}
"""Programs that print their version and exit. Programs whose version the folder selects (cargo, go, yarn, pnpm, …) are not
listed."""
