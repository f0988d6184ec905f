#!/usr/bin/env bash
# clang-tidy over the sources, several at a time and without the precompiled headers, which are GCC's
# (docs/decisions/batches.md). A batch that was found clean before, with everything that it includes, by the same rules and the
# same clang-tidy, is not looked at again: it leaves a mark, named by the digest of all these files, in the user's cache
# folder (clang-tidy itself keeps nothing, and ccache does not know it).
# usage: tests/tidy.sh [--all] [--jobs N]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all=0
jobs=$(nproc)
while [ $# -gt 0 ]; do
  case $1 in
    --all) all=1; shift ;;
    --jobs) jobs=$2; shift 2 ;;
    *) echo "usage: tests/tidy.sh [--all] [--jobs N]" >&2; exit 2 ;;
  esac
done

cmake --fresh --preset tidy >/dev/null
# The generated headers, without the libraries that ninja would build before them.
for header in $(ninja -C build/tidy -t targets all | sed -n 's/^\(generated.*\.pb\.h\): .*/\1/p'); do
  bash -c "$(ninja -C build/tidy -t commands -s "$header" | grep -v '^ninja: ')"
done

# No source may be left out, by a target that nobody made or that lacks a library here.
files=$(sed -n 's/^ *"file": "\(.*\)".*/\1/p' build/tidy/compile_commands.json | grep -v '/generated/' | sort -u)
missing=$(comm -13 <({ echo "$files" | sed "s|^$PWD/||"
  find build/tidy -path '*/batches/*' -name '*.cc' -exec sed -n 's/^#include "\(.*\.cc\)"$/\1/p' {} +; } | sort -u) \
  <(git ls-files -- '*.cc' | grep -v '^tests/' | sort -u))
[ -z "$missing" ] || { printf 'not in a target, so not looked at:\n%s\n' "$missing" >&2; exit 1; }

marks=${XDG_CACHE_HOME:-$HOME/.cache}/millrace/clang-tidy
mkdir -p "$marks"
find "$marks" -type f -mtime +30 -delete
rules=$(cat .clang-tidy <(clang-tidy --version) | sha256sum)

# files_of FILE: the names of all files that clang reads for FILE.
files_of() {
  bash -c "$(python3 -c '
import json, shlex, sys
entry = next(e for e in json.load(open("build/tidy/compile_commands.json")) if e["file"] == sys.argv[1])
words = shlex.split(entry["command"])
while not words[0].endswith("++"):
    words.pop(0)
at = words.index("-o")
del words[at:at + 2]
words.remove("-c")
print("cd", shlex.quote(entry["directory"]), "&&", shlex.join(["clang++"] + words[1:] + ["-w", "-M"]))' "$1")" |
    sed 's/^[^ ]*: //; s/ *\\$//' | tr -s ' ' '\n' | grep .
}
# look FILE: clang-tidy, unless there is a mark. What it prints on stderr only counts suppressed warnings, unless it fails.
look() {
  local file=$1 read_files mark
  read_files=$(files_of "$file")
  [ -n "$read_files" ] || return 1
  mark=$marks/$({ echo "$rules"; (cd build/tidy && xargs -d '\n' cat <<<"$read_files"); } | sha256sum | cut -d' ' -f1)
  [ "$all" = 0 ] && [ -e "$mark" ] && return 0
  local log
  log=$(mktemp)
  if clang-tidy -p build/tidy --quiet --extra-arg=-Wno-unknown-warning-option "$file" 2>"$log"; then
    touch "$mark"
    rm "$log"
    return 0
  fi
  grep -v 'warnings generated' "$log" >&2
  rm "$log"
  return 1
}
export -f look files_of
export marks rules all
echo "$files" | xargs -P "$jobs" -I{} bash -c 'look "$1"' look {}
