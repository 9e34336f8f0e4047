"""Lists the programs that only read, and the options with which they do no more.

An option that stands here neither writes, nor runs another program, nor follows links out of a folder, nor reads a list
of names from a file. What does not stand here is asked about, shortened names of options too.

A line is `PROGRAMS OPERANDS OPTIONS`. Operands: `none`; `text`, which no file is read for; `stamp`, of the form `+…`; `paths`,
which are read; `pattern`, a text and then paths. `paths/2` has two at most. Options: `-abc` are letters, `-abc:` letters with a
value, `-abc#` letters whose number is attached, `-#` a number; `name` and `name=` are `--name`, without and with a value; `=-ab` counts
only in this spelling; `!deep` reads everything below a folder, `!deep:r` if `-r` or `--r` is given; `!apart`: a value is always the
next word. An indented line continues the one above.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

MANY = 1000


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Reader(Struct, frozen=True):
    """One line of the table. For some programs one operand more than `most` would be a file to write."""

    operands: str
    most: int = MANY
    letters: str = ""
    values: str = ""
    attached: str = ""
    long: frozenset[str] = frozenset()
    long_values: frozenset[str] = frozenset()
    exact: frozenset[str] = frozenset()
    numbers: bool = False
    apart: bool = False
    deep: frozenset[str] = frozenset()


_OPTION = re.compile(r"-([^-\s]\S*?)([:#]?)")


def parse_table(text: str) -> dict[str, Reader]:
    rows = re.sub(r"\n[ \t]+", " ", text).strip().splitlines()
    found: dict[str, Reader] = {}
    for row in rows:
        names, operands, *options = row.split()
        reader = _parse_row(operands, options)
        found.update(dict.fromkeys(names.split(","), reader))
    return found


def _parse_row(operands: str, options: list[str]) -> Reader:
    kind, _, most = operands.partition("/")
    given: dict[str, Any] = {"operands": kind, "most": int(most or MANY)}
    long = [word for word in options if word[0] not in "-=!"]
    given["long"] = frozenset(word for word in long if word[-1] != "=")
    given["long_values"] = frozenset(word[:-1] for word in long if word[-1] == "=")
    given["exact"] = frozenset(word[1:] for word in options if word[0] == "=")
    for word in options:
        if word in ("!apart", "-#"):
            given["apart" if word == "!apart" else "numbers"] = True
        elif word.startswith("!deep"):
            given["deep"] = frozenset(word.partition(":")[2].split(",") if ":" in word else "*")
        elif letters := _OPTION.fullmatch(word):
            given[{"": "letters", ":": "values", "#": "attached"}[letters[2]]] = letters[1]
    return Reader(**given)


class Reads(Struct, frozen=True):
    """The paths that a command reads; with `deep` everything below them, too. `changes` are files that it changes.

    `files`: a path must be no folder. `git`: the folder whose repository it obeys, and reads as a whole where it is deep."""

    paths: tuple[str, ...] = ()
    deep: bool = False
    git: str = ""
    changes: tuple[str, ...] = ()
    files: bool = False


class Unknown(Struct, frozen=True):
    """The reason why a command may do more than read."""

    why: str


READERS: Mapping[str, Reader] = parse_table("""
arch,false,groups,true,whoami none
basename text -az -s: multiple zero suffix=
b2sum,md5sum,sha1sum,sha224sum,sha256sum,sha384sum,sha512sum paths -bt binary text tag zero
cat paths -AbeEnstTuv number number-nonblank show-all show-ends show-nonprinting show-tabs squeeze-blank
cksum,rev paths
cmp paths/2 -bls -in: print-bytes verbose silent quiet bytes= ignore-initial=
column paths -tx -sco: table fillrows separator= output-separator= output-width=
comm paths -123z check-order nocheck-order total zero-terminated output-delimiter=
cut paths -nsz -bcdf: complement only-delimited zero-terminated bytes= characters= fields= delimiter= output-delimiter=
date stamp -uR -d: utc universal rfc-email date= iso-8601= rfc-3339=
df text -ahHiklTP -tx: all human-readable inodes local portability print-type si total type=
diff paths/2 -abBcdeinNqstTuwyZ -UCW: brief unified side-by-side ignore-case ignore-all-space ignore-blank-lines
  ignore-space-change report-identical-files text minimal suppress-common-lines color unified= context= color= width= label=
dirname text -z zero
du paths -abchHkmPsSx0 -Bdt: all apparent-size bytes human-readable summarize total one-file-system si null block-size=
  max-depth= exclude= threshold= time=
file paths -bhikLNnr brief mime mime-type mime-encoding no-dereference dereference raw
fold paths -bs -w: bytes spaces width=
free none -bkmght bytes kibi mebi gibi human total wide
grep,egrep,fgrep pattern -abcEFGhHiIlLnoPqrsTUvwxyzZ -eABCm: -# !deep:r,recursive extended-regexp fixed-strings perl-regexp
  ignore-case invert-match word-regexp line-regexp count files-with-matches files-without-match only-matching quiet
  no-messages with-filename no-filename line-number text recursive color regexp= max-count= after-context= before-context=
  context= include= exclude= exclude-dir= color=
head,tail paths -qvz -nc: -# quiet silent verbose zero-terminated lines= bytes=
hexdump paths -bcCdovx -ns: canonical one-byte-octal
hostname none -fsiId fqdn short
id text -agGnruz user group groups name real zero
ls paths -aAbBcCdfFgGhHiklmnNopqQrRsStuUvxXZ1 -ITw: all almost-all directory classify full-time group-directories-first
  human-readable si inode reverse recursive size sort time time-style color block-size= color= ignore= sort= time= time-style=
  width=
nl paths -p -bdfhilnsvw: no-renumber body-numbering= number-format= number-width=
nproc none all ignore=
od paths -abcdfilosxv -AjNt: address-radix= format= read-bytes= skip-bytes=
paste paths -sz -d: serial zero-terminated delimiters=
printf text
pwd none -LP
readlink text -efmnqsvz canonicalize canonicalize-existing canonicalize-missing no-newline
realpath text -emLPqsz canonicalize-existing canonicalize-missing no-symlinks zero relative-to=
rg pattern -abcFHhiIlNnopPqsSuUVvwx0. -eABCgjmMtTEdr: !deep case-sensitive column count count-matches crlf files
  files-with-matches files-without-match fixed-strings heading help hidden ignore-case invert-match json line-number
  line-regexp multiline multiline-dotall no-config no-filename no-heading no-hidden no-ignore no-ignore-vcs no-line-number
  no-messages null one-file-system only-matching pcre2 pretty quiet smart-case text trim unrestricted version vimgrep
  with-filename word-regexp type-list after-context= before-context= color= context= glob= iglob= max-columns= max-count= max-depth=
  max-filesize= regexp= replace= sort= type= type-not=
seq text -w -fs: -# equal-width format= separator=
sleep text
sort paths -bcCdfghiMmnRrsuVz -ktS: ignore-case human-numeric-sort numeric-sort reverse version-sort check unique key=
  field-separator= sort=
stat paths -fLt -c: file-system dereference terse format= printf=
strings paths -afow -nte: all print-file-name bytes= radix= encoding=
sum paths -rs sysv
tac paths -br -s: before regex separator=
tr text -cCdst complement delete squeeze-repeats truncate-set1
tree paths -adfFghiDpsuCnAQNrtUvxJX -LPI: -L# !apart noreport dirsfirst filesfirst gitignore prune du matchdirs ignore-case
  inodes device filelimit= sort= charset=
type text -afptP
uname none -asnrvmpio all kernel-name nodename kernel-release machine operating-system
uniq paths/1 -cdDiuz -fsw: count repeated ignore-case unique zero-terminated skip-fields= skip-chars=
uptime none -ps pretty since
wc paths -clmLw bytes chars lines max-line-length words
which text -a all
xxd paths/1 -cglos: =-a =-b =-E =-i =-u =-p =-ps
jq pattern -cMCrjaSes compact-output raw-output sort-keys slurp
""")

ANY_OPTION = word_set("cat du echo egrep fgrep grep head ls md5sum sha1sum sha256sum stat tail wc")
"""Programs that neither write nor run anything with any option: for them a pattern may begin a word (`ls *.md`)."""

_LOG = """
  oneline graph decorate no-decorate all branches tags remotes stat shortstat numstat name-only name-status summary patch
  no-patch raw abbrev-commit no-abbrev-commit reverse merges no-merges first-parent follow topo-order ignore-case
  regexp-ignore-case extended-regexp fixed-strings perl-regexp color no-color no-ext-diff no-textconv word-diff cached staged
  merge-base binary ignore-all-space ignore-space-change ignore-blank-lines find-renames find-copies no-renames no-prefix
  compact-summary check quiet exit-code text relative root ignore-submodules max-count= skip= since= until= after= before=
  author= committer= grep= format= pretty= date= stat= abbrev= diff-filter= unified= color= decorate= word-diff= find-renames=
  find-copies= relative= ignore-submodules= glob= branches= tags= remotes="""

GIT: Mapping[str, Reader] = parse_table(f"""
blame text -bcefFlnpstwMC -L: root show-stats incremental porcelain line-porcelain show-name show-email date= abbrev=
branch none -alrqv all remotes list verbose show-current no-color no-column color ignore-case contains= no-contains= merged=
  no-merged= points-at= sort= format= abbrev= color=
cat-file text/2 -tesp
check-ignore text -qvn quiet verbose non-matching no-index
count-objects none -vH verbose human-readable
describe text all tags contains always long exact-match first-parent dirty abbrev= candidates= match= exclude= dirty=
diff,log,show,whatchanged text -abcegilmpqrstuvwzEFPWMCD -nSGL: -UMCX# -# {_LOG}
diff-tree text -rtvpsmcz -UMC# {_LOG}
for-each-ref text ignore-case count= sort= format= points-at= merged= no-merged= contains=
grep text -acEFGhHiIlLnoPpqrvwWz -eABCm: -# cached untracked no-exclude-standard exclude-standard text ignore-case word-regexp
  invert-match full-name extended-regexp basic-regexp perl-regexp fixed-strings line-number column files-with-matches
  name-only files-without-match only-matching count color no-color break heading show-function function-context all-match and
  or not quiet recursive context= after-context= before-context= max-depth= max-count= threads= color=
ls-files text -cdmoiskutvfz -x: cached deleted modified others ignored stage killed unmerged exclude-standard full-name
  error-unmatch directory no-empty-directory eol deduplicate recurse-submodules exclude= abbrev= format=
ls-tree text -drtlz long name-only name-status object-only full-name full-tree abbrev= format=
merge-base text -a all octopus independent is-ancestor fork-point
name-rev text tags name-only no-undefined always refs= exclude=
rev-list text -n: -# {_LOG} count objects parents children timestamp
rev-parse text -q verify quiet short abbrev-ref symbolic symbolic-full-name all branches tags remotes show-toplevel
  show-prefix show-cdup git-dir absolute-git-dir git-common-dir is-inside-git-dir is-inside-work-tree is-bare-repository
  is-shallow-repository show-superproject-working-tree short= abbrev-ref= default= prefix= since= until= git-path=
shortlog text -sneciw summary numbered email merges no-merges since= until= group= format=
show-ref text -dqs heads tags branches verify hash head dereference quiet abbrev= hash=
status text -sbuvz =-uno =-uall =-unormal =-sb =-bs short branch show-stash porcelain long verbose ignored untracked-files
  porcelain= untracked-files= ignored= ignore-submodules=
tag none -ln -n# list ignore-case no-column column contains= no-contains= merged= no-merged= points-at= sort=
""")
"""Subcommands that only read. Options that write (`--output`) or run something (`--ext-diff`, `-O`) are not here."""
GIT_PATCHES = word_set("p u U c m L W S G D patch unified word-diff binary check text")
"""Options with which git prints or searches contents of files."""
GIT_NAMES = word_set("s no-patch stat shortstat numstat name-only name-status summary raw quiet")
"""Options with which `git diff` prints names of files and no contents."""
GIT_FIXED = word_set(
    "remote remote+-v remote+--verbose remote+get-url+origin reflog stash+list worktree+list --version "
    "version config+user.name config+user.email config+--get+user.name config+--get+user.email"
)
"""Commands that only read in this exact form; `+` stands for a blank."""
SEPARATE = word_set(
    "after after-context author before before-context bytes context exclude glob grep iglob include lines max-columns "
    "max-count max-depth regexp replace since sort type type-not until"
)
"""Long options whose value may be the next word. For others, some programs take that word as an operand."""

FIND_TESTS = word_set(
    "-amin -anewer -atime -cmin -cnewer -ctime -gid -group -ilname -iname -inum -ipath -iregex -links -lname -mmin -mtime -name "
    "-newer -path -perm -regex -regextype -samefile -size -type -uid -used -user -wholename -xtype -maxdepth -mindepth -printf"
)
"""Tests and actions of `find` with one value."""
FIND_FLAGS = word_set(
    "-depth -mount -xdev -noleaf -daystart -empty -executable -readable -writable -false -true -nogroup -nouser "
    "-print -print0 -ls -prune -quit -not -a -and -o -or ! ( ) , -ignore_readdir_race"
)
VERSIONS = word_set(
    "clang+--version cmake+--version docker+--version gcc+--version gh+--version jq+--version make+--version pip+--version "
    "pip3+--version psql+--version rg+--version ruby+--version sqlite3+--version uv+--version deno+--version bun+--version "
    "bun+-v node+--version node+-v npm+--version npm+-v python+--version python+-V python3+--version python3+-V java+-version"
)
"""Programs that print their version and exit. Those whose version the folder selects (cargo, go, yarn, …) are not listed."""
