#!/bin/sh
# `make edge`: a server with a Varnish in front, on one port, with nothing else to set up.
# The edge listens where EDGE_LISTEN says; EDGE_SERVER_PORT and EDGE_OBJECTS_PORT are for the edge
# alone. The server's own settings are taken as always.
set -eu

edge=$(cd "$(dirname "$0")" && pwd)
PATH="$PWD/.venv/bin:$PATH:/usr/sbin:/usr/local/sbin"
listen=${EDGE_LISTEN:-127.0.0.1:4437}
inner=127.0.0.1:${EDGE_SERVER_PORT:-4438}
objects=127.0.0.1:${EDGE_OBJECTS_PORT:-4439}
data=${DS_STORAGE__DATA_DIR:-./data}
home=$(mktemp -d)
secret=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
running=

finish() {
    trap - EXIT INT TERM
    for pid in $running; do kill "$pid" 2>/dev/null || true; done
    wait
    rm -rf "$home"
}
trap finish EXIT
trap 'exit 0' INT TERM

for each in varnishd:varnish nginx:nginx; do
    command -v "${each%:*}" >/dev/null || sh "$edge/../bootstrap/apt.sh" "${each#*:}"
done

DS_SERVER__HOST=127.0.0.1 DS_SERVER__PORT=${inner#*:} DS_STORAGE__DATA_DIR=$data \
    DS_EDGE__SECRET=$secret DS_EDGE__VARNISH="http://$listen" ds-server &
running="$running $!"
mkdir -p "$data/objects"
EDGE_HOME="$home/objects" EDGE_LISTEN="$objects" \
    EDGE_OBJECTS=$(cd "$data/objects" && pwd) sh "$edge/nginx.sh" objects &
running="$running $!"
EDGE_HOME="$home/varnish" EDGE_LISTEN=$listen EDGE_SECRET=$secret \
    EDGE_ORIGINS="$inner" EDGE_BUCKET="$objects" \
    sh "$edge/varnish.sh" 2>"$home/varnish.log" &
running="$running $!"

echo "the edge is at http://$listen; the server behind it at http://$inner"
while :; do
    for pid in $running; do
        kill -0 "$pid" 2>/dev/null || { cat "$home/varnish.log" >&2; exit 1; }
    done
    sleep 1 &
    wait $!
done
