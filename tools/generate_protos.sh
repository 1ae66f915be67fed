#!/bin/sh
# Compile proto/*.proto into src/cathedra/_proto/. Needs grpcio-tools (the "dev" extra). The virtual path
# "cathedra/_proto" gives every file a unique name in protobuf's one descriptor pool, and makes the stubs import
# each other as cathedra._proto.*.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
rm -f src/cathedra/_proto/*_pb2.py src/cathedra/_proto/*_pb2.pyi src/cathedra/_proto/*_pb2_grpc.py
set -- proto/*.proto
names=
for file; do names="$names cathedra/_proto/${file#proto/}"; done
# shellcheck disable=SC2086
"$python" -m grpc_tools.protoc -Icathedra/_proto=proto --python_out=src --pyi_out=src --grpc_python_out=src $names
