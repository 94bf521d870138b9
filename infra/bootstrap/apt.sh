#!/bin/sh
# Installs Debian packages where nobody needs to be asked: as root, with apt-get.
# Elsewhere it says what is missing and fails.
set -eu

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "missing: $* (not installed for you: that takes root and apt-get)" >&2
    exit 1
fi

# Packages of servers would start them: the system asks this file first, where there is one.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi

install() {
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 \
        install --yes --no-install-recommends "$@" </dev/null >/dev/null
}

echo "installing with apt-get: $*"
install "$@" 2>/dev/null || { apt-get -qq -o DPkg::Lock::Timeout=120 update && install "$@"; }
