#!/bin/sh
# Runs nginx in the foreground, as an edge or as the bucket of a server that keeps its objects in
# a directory: `nginx.sh edge` or `nginx.sh objects`. The environment says for whom:
#   EDGE_LISTEN    host:port to serve on
#   EDGE_HOME      a folder of its own for what it writes
#   EDGE_ORIGINS   edge: the servers, as host:port, with spaces between
#   EDGE_SECRET    edge: what proves it to the servers
#   EDGE_BUCKET    edge: host:port of the bucket
#   EDGE_OBJECTS   objects: the directory
set -eu

PATH="$PATH:/usr/sbin:/usr/local/sbin"
rules=$(cd "$(dirname "$0")" && pwd)
: "${EDGE_LISTEN:?}" "${EDGE_HOME:?}"

edge() {
    : "${EDGE_ORIGINS:?}"
    {
        echo 'upstream servers {'
        for origin in $EDGE_ORIGINS; do echo "    server $origin;"; done
        echo '    keepalive 64;'
        echo '}'
        echo "upstream bucket { server ${EDGE_BUCKET:-127.0.0.1:9}; keepalive 64; }"
        echo "upstream fetcher { server unix:$EDGE_HOME/fetcher.sock; keepalive 64; }"
        echo "map '' \$edge_secret { default '${EDGE_SECRET:-}'; }"
    } >site.conf
    echo "listen unix:$EDGE_HOME/fetcher.sock;" >fetcher.conf
    rm -f fetcher.sock
    cp "$rules/nginx.conf" "$rules/undress.conf" .
}

objects() {
    echo "root '${EDGE_OBJECTS:?}';" >root.conf
    cp "$rules/objects.conf" nginx.conf
}

mkdir -p "$EDGE_HOME/temporary"
cd "$EDGE_HOME"
umask 077
echo "listen $EDGE_LISTEN backlog=4096;" >listen.conf
case "${1:-}" in
edge | objects) "$1" ;;
*) echo "say what nginx is to be: edge or objects" >&2; exit 2 ;;
esac

# Who may read the directory serves it; nginx takes a user only from root.
if [ "$(id -u)" = 0 ]; then set -- -g "user $(id -un) $(id -gn);"; else set --; fi
exec nginx -p "$EDGE_HOME" -c "$EDGE_HOME/nginx.conf" -e stderr "$@"
