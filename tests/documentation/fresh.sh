#!/bin/sh
# The README's commands on a machine without root, kubectl and crun, in a fresh copy of the repository:
#   git clone … && cd cathedra && sh tests/documentation/fresh.sh
set -eu
[ "$(id -u)" -ne 0 ] || { echo "run this as an unprivileged user" >&2; exit 1; }
HOME=$(mktemp -d)
export HOME
unset KUBECONFIG CATHEDRA_DATA_DIR || true
trap 'cathedra delete >/dev/null 2>&1 || true; rm -rf "$HOME"' EXIT
make demo
export PATH="$PWD/.venv/bin:$PATH"
cathedra up --detach --nodes 2 --gpus 4
cathedra status
cathedra down
cathedra up --detach
cathedra list | grep -q "running .* 2 "
cathedra logs cluster
cathedra delete
