#!/usr/bin/env bash
# Installs the servers of tests/peers from PyPI (260 MB) into a virtual environment in FOLDER; safe to call again. The
# tests look for it in `peers-venv` of the build folder, or where MILLRACE_PEERS says when they run.
# usage: tests/peers/setup.sh FOLDER
set -euo pipefail
if [ $# -ne 1 ] || [[ $1 == -* ]]; then
  echo "usage: tests/peers/setup.sh FOLDER, such as build/dev/peers-venv" >&2
  exit 2
fi
[ -x "$1/bin/python3" ] || python3 -m venv "$1"
"$1/bin/python3" -m pip install --quiet --disable-pip-version-check \
  --requirement "$(dirname "${BASH_SOURCE[0]}")/requirements.txt"
