#!/usr/bin/env bash
# clang-tidy over the sources that were changed lately (tests/changed_sources.py); with --all over all but the tests.
# Several at a time and without the precompiled headers, which are GCC's (docs/decisions/batches.md). A batch that was found
# clean before, with everything that it includes, by the same rules and the same clang-tidy, is not looked at again: it
# leaves a mark, named by the digest of all these files, in the user's cache folder (clang-tidy itself keeps nothing, and
# ccache does not know it).
# usage: tests/tidy.sh [--all] [--jobs N]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all=0
jobs=$(nproc)
while [ $# -gt 0 ]; do
  case $1 in
    --all) all=1; shift ;;
    --jobs) jobs=${2:?tests/tidy.sh: --jobs needs a value}; shift 2 ;;
    *) echo "usage: tests/tidy.sh [--all] [--jobs N]" >&2; exit 2 ;;
  esac
done

# Batches of an older configuration would count as looked at.
find build/tidy -type d -name batches -prune -exec rm -r {} + 2>/dev/null || true
cmake --fresh --preset tidy >/dev/null
# The generated headers, without the libraries that ninja would build before them.
for header in $(ninja -C build/tidy -t targets all | sed -n 's/^\(generated.*\.pb\.h\): .*/\1/p'); do
  bash -c "$(ninja -C build/tidy -t commands -s "$header" | grep -v '^ninja: ')"
done

# No source may be left out, by a target that nobody made or that lacks a library here.
files=$(sed -n 's/^ *"file": "\(.*\)".*/\1/p' build/tidy/compile_commands.json | grep -v '/generated/' | sort -u)
missing=$(comm -13 <({ echo "$files" | sed "s|^$PWD/||"
  find build/tidy -path '*/batches/*' -name '*.cc' -exec sed -n 's|^#include "\(millrace/\)\?\(.*\.cc\)"$|\2|p' {} +; } | sort -u) \
  <(git ls-files --cached --others --exclude-standard -- '*.cc' | grep -v '^tests/' | sort -u))
[ -z "$missing" ] || { printf 'not in a target, so not looked at:\n%s\n' "$missing" >&2; exit 1; }

# Of these, batches and sources with something that was changed; what is generated in the build folder always.
if [ "$all" = 0 ]; then
  changed=$(tests/changed_sources.py)
  files=$(for file in $files; do
    case $file in
      */batches/*) sources=$(sed -n 's|^#include "\(millrace/\)\?\(.*\.cc\)"$|\2|p' "$file") ;;
      "$PWD"/build/*) sources=$changed ;;
      *) sources=${file#"$PWD/"} ;;
    esac
    if grep -q -x -F -f <(echo "$changed") <<<"$sources"; then echo "$file"; fi
  done)
fi

marks=${XDG_CACHE_HOME:-${HOME:-$PWD/build}/.cache}/millrace/clang-tidy
mkdir -p "$marks"
find "$marks" -type f -mtime +30 -delete
rules=$(cat .clang-tidy tests/tidy.sh <(clang-tidy --version) | sha256sum)

# command_of FILE: how clang says what it reads for FILE.
command_of() {
  python3 -c '
import json, shlex, sys
entry = next(e for e in json.load(open("build/tidy/compile_commands.json")) if e["file"] == sys.argv[1])
words = shlex.split(entry["command"])
while not words[0].endswith("++"):
    words.pop(0)
at = words.index("-o")
del words[at:at + 2]
words.remove("-c")
print("cd", shlex.quote(entry["directory"]), "&&", shlex.join(["clang++"] + words[1:] + ["-w", "-M"]))' "$1"
}
# digest_of FILE: of the rules, the command, and the content of all files that it reads; fails where one cannot be read.
digest_of() {
  local command
  command=$(command_of "$1") || return 1
  { echo "$rules" "${command//"$PWD"/}"
    bash -c "$command" | sed 's/^[^:]*: //; s/ *\\$//; s/\\ /\x01/g' | tr -s ' ' '\n' | tr '\001' ' ' | grep . |
      (cd build/tidy && xargs -d '\n' cat); } | sha256sum | cut -d' ' -f1
}
# look FILE: clang-tidy, unless there is a mark. What it prints on stderr only counts suppressed warnings, unless it fails.
look() {
  set -o pipefail
  local file=$1 mark
  mark=$(digest_of "$file") || { echo "tests/tidy.sh: cannot tell what $file includes" >&2; return 1; }
  mark=$marks/$mark
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
export -f look digest_of command_of
export marks rules all
[ -z "$files" ] || echo "$files" | xargs -P "$jobs" -I{} bash -c 'look "$1"' look {}
