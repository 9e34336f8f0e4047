# Sourced by ./run and ./check, which set `root`: `open_env run` or `open_env dev` sets `env` to a finished environment.
#
# A folder holds environments `KIND-…` and a file `KIND.key` that names the current one. An environment is finished
# when it holds a stamp, written last, with all that it was made from. Comparing it is all that a later start does.

# Some machines export this; every start would compile every module again.
unset PYTHONDONTWRITEBYTECODE

is_ready() { # FOLDER
    { read -r key <"$1/$kind.key"; } 2>/dev/null || return 1
    env=$1/$key
    [ -x "$env/bin/python" ] && [ "$(cat "$env/stamp" 2>/dev/null)" = "$wanted" ]
}

find_python() {
    if [ -n "${PILOTHOUSE_PYTHON:-}" ]; then
        set -- "$PILOTHOUSE_PYTHON"
    else
        set -- python3 python3.14 python3.13 python3.12 python3.11
    fi
    for python do
        # A name on PATH may be a version manager's stand-in that does not run: only running it tells.
        "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && return
    done
    if found=$("$1" --version 2>&1); then
        found="here $1 is $found"
    elif command -v "$1" >/dev/null; then
        found="here $1 does not run"
    else
        found="there is no $1 here"
    fi
    {
        echo "pilothouse: needs Python 3.11 or newer; $found."
        echo "  Install a newer one (it may stand beside the old one, as python3.12), or name one in PILOTHOUSE_PYTHON."
    } >&2
    exit 1
}

open_env() { # KIND
    kind=$1
    wanted=$(
        printf '%s\n' "$root" "${PILOTHOUSE_PYTHON:-}"
        sed '/^\[tool\.pytest/q' "$root/pyproject.toml"
        cat "$root/requirements/$kind.txt" "$root/requirements/build.txt"
    )

    folder=$root/.venv
    is_ready "$folder" && return
    if [ -e "$folder" ]; then writable=$folder; else writable=$root; fi
    if [ ! -w "$writable" ]; then
        place=$(printf %s "$root" | cksum)
        folder=${PILOTHOUSE_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/pilothouse}/env-${place%% *}
        is_ready "$folder" && return
    fi

    find_python
    printf %s "$wanted" | "$python" -I "$root/tools/bootstrap.py" "$kind" "$root" "$folder" || exit
    is_ready "$folder" && return
    echo "pilothouse: the packages changed while they were being installed; start again" >&2
    exit 1
}
