#!/bin/sh
# Runs Varnish with the rules beside this file, in the foreground. The environment says for whom:
#   EDGE_ORIGINS   the servers, as host:port, with spaces between
#   EDGE_LISTEN    host:port to serve on
#   EDGE_HOME      a folder of its own for what it writes
#   EDGE_SECRET    what proves this edge to the servers, and a purge to this edge
#   EDGE_BUCKET    host:port of the bucket (without it no object is fetched from there)
#   EDGE_STRAIGHT  the path in front of chunks/ at the bucket, to fetch them without asking first
#   EDGE_PROBE     the path that tells whether a server is well; empty: nobody asks
#   EDGE_STORAGE   how much to keep, as varnishd takes it
set -eu

PATH="$PATH:/usr/sbin:/usr/local/sbin"
rules=$(cd "$(dirname "$0")" && pwd)
probe=${EDGE_PROBE-/healthz}
: "${EDGE_ORIGINS:?}" "${EDGE_LISTEN:?}" "${EDGE_HOME:?}"
case "${EDGE_SECRET:=}" in
*[!A-Za-z0-9._~+/=-]*) echo "EDGE_SECRET has characters that a header cannot carry" >&2; exit 2 ;;
esac

backend() {
    printf 'backend %s {\n    .host = "%s";\n    .port = "%s";\n    .max_connections = 10000;\n%s}\n' \
        "$1" "${2%:*}" "${2##*:}" "$3"
}

site() {
    printf 'import directors;\n'
    if [ -n "$probe" ]; then
        printf 'probe health {\n    .url = "%s";\n    .interval = 1s;\n    .timeout = 2s;\n' "$probe"
        printf '    .window = 3;\n    .threshold = 2;\n    .initial = 2;\n}\n'
    fi
    number=0
    for origin in $EDGE_ORIGINS; do
        number=$((number + 1))
        backend "origin_$number" "$origin" "${probe:+    .probe = health;
}"
    done
    if [ -n "${EDGE_BUCKET:-}" ]; then backend bucket "$EDGE_BUCKET" ''; else echo 'backend bucket none;'; fi
    printf 'sub vcl_init {\n    new servers = directors.round_robin();\n'
    for each in $(seq "$number"); do printf '    servers.add_backend(origin_%s);\n' "$each"; done
    printf '}\nsub site {\n    set req.backend_hint = servers.backend();\n'
    if [ -n "$EDGE_SECRET" ]; then printf '    set req.http.DS-Edge-Secret = "%s";\n' "$EDGE_SECRET"; fi
    if [ -n "${EDGE_STRAIGHT:-}" ]; then printf '    set req.http.DS-Straight = "%s";\n' "$EDGE_STRAIGHT"; fi
    printf '}\nsub site_back {\n    set bereq.backend = servers.backend();\n'
    if [ -n "$EDGE_SECRET" ]; then printf '    set bereq.http.DS-Edge-Secret = "%s";\n' "$EDGE_SECRET"; fi
    printf '}\n'
}

mkdir -p "$EDGE_HOME/work"
(umask 077 && site >"$EDGE_HOME/site.vcl")

# Each live reader holds a thread while it is sent something, and a stream that goes around the
# world brings thousands at once: they may queue for one. Compression is off, so that readers get
# what the server would send; ranges are for snapshots alone.
exec varnishd -F -j none -n "$EDGE_HOME/work" -a "$EDGE_LISTEN" -f "$rules/varnish.vcl" \
    -s "malloc,${EDGE_STORAGE:-256m}" -T none \
    -p vcl_path="$EDGE_HOME:$rules" \
    -p http_gzip_support=off -p http_range_support=on \
    -p thread_pool_min=200 -p thread_pool_max=8000 -p thread_queue_limit=10000 \
    -p thread_pool_stack=80k -p listen_depth=4096 -p timeout_idle=60
