#!/usr/bin/env bash
# Installs a build into an empty folder, builds a user's program against it with find_package, and runs it.
# usage: tests/install/run.sh BUILD_FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$1" --prefix "$work/prefix" >/dev/null
cp -r tests/install/user_program "$work/source"
cmake -S "$work/source" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build"
result=$("$work/build/user_program")
[ "$result" = 499500 ] || { echo "user program printed '$result', expected 499500" >&2; exit 1; }
echo "a user's program builds against the installed copy and prints $result"
