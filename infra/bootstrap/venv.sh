#!/bin/sh
# Makes .venv in the current directory with a Python that is new enough.
# One that works and was made here is left as it is.
set -eu

bootstrap=$(dirname "$0")
needed="Python 3.11 or newer is needed"

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

made_here() {
    new_enough .venv/bin/python && grep -qsF "$PWD/.venv" .venv/bin/activate
}

find_python() {
    for candidate in python3 python3.13 python3.12 python3.11 python3.14 python; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
}

if made_here; then exit 0; fi

if [ -n "${PYTHON:-}" ]; then
    if ! new_enough "$PYTHON"; then
        echo "$needed; PYTHON=$PYTHON is $("$PYTHON" --version 2>&1 || true)" >&2
        exit 1
    fi
else
    PYTHON=$(find_python)
    if [ -z "$PYTHON" ]; then
        echo "$needed; python3 here is $(python3 --version 2>/dev/null || echo none)." \
            "Install one, or name it: make PYTHON=/path/to/python" >&2
        exit 1
    fi
fi

# Debian ships Python without the part that puts pip into an environment.
if ! "$PYTHON" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    package=$("$PYTHON" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    echo "$PYTHON cannot make virtual environments: Debian keeps that in $package"
    sh "$bootstrap/apt.sh" "$package"
fi

"$PYTHON" -m venv --clear .venv
