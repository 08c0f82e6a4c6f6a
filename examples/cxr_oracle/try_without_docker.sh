#!/bin/sh
# Runs the container's entry point on this machine:
#
#   examples/cxr_oracle/try_without_docker.sh MODEL QUESTIONS IMAGES ANSWERS [--limit 10 …]
#
# `medvqa-hub` must be installed, or MEDVQA_HUB must name it. As in the container the network is cut off, if this
# machine allows `unshare`.
set -eu
MODEL=$(realpath "$1") QUESTIONS=$(realpath "$2") IMAGES=$(realpath "$3")
mkdir -p "$4"
ANSWERS=$(realpath "$4")
export MODEL QUESTIONS IMAGES ANSWERS
shift 4
entry=$(dirname "$(realpath "$0")")/entrypoint.sh
if unshare --map-root-user --net true 2>/dev/null; then
    exec unshare --map-root-user --net "$entry" "$@"
fi
exec "$entry" "$@"
