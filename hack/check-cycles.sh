#!/usr/bin/env bash
# No cycle between the modules of a pure crate: what a module needs can be read before it. The modules are the files and
# directories directly below the given root; tests do not count.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# edges ROOT PREFIX: one line "user used" for each dependency between modules below ROOT, whose path is PREFIX (such as
# crate::decide). Reads `PREFIX::module`, `PREFIX::{module, ..}` and, in a file directly below a module, `super::super::`.
edges() {
  local root=$1 prefix=$2
  find "$root" -name '*.rs' | sort | while read -r file; do
    local inside=${file#"$root"/}
    case $inside in
      lib.rs | mod.rs | *tests.rs | *tests/* | testing.rs | */testing.rs) continue ;;
    esac
    local module=${inside%%/*}
    # How many `super` lead from this file to the root: one for a module in a file, one more for each directory.
    local path=${inside%.rs} ups
    path=${path%/mod}
    ups=$(awk -F/ '{print NF}' <<<"$path")
    awk -v user="${module%.rs}" -v prefix="$prefix" -v ups="$ups" '
      /^#\[cfg\(test\)\]/ { exit }
      { sub(/\/\/.*/, ""); text = text " " $0 }
      END {
        up = "super"
        for (i = 1; i < ups; i++) up = up "::super"
        gsub(/[ \t]+/, " ", text)
        rest = text
        while (match(rest, /(crate|super)(::[a-z_]+)*::(\{[^;]*|[a-z_]+)/)) {
          found = substr(rest, RSTART, RLENGTH)
          before = RSTART > 1 ? substr(rest, RSTART - 1, 1) : " "
          rest = substr(rest, RSTART + 5)
          if (before ~ /[A-Za-z0-9_:]/) continue
          if (index(found, prefix "::") == 1) found = substr(found, length(prefix) + 3)
          else if (index(found, up "::") == 1 && substr(found, length(up) + 3) !~ /^super/) found = substr(found, length(up) + 3)
          else continue
          list(found)
        }
      }
      # The first names of a path or of a list of paths.
      function list(found,    depth, name, i, character) {
        if (found !~ /^\{/) { sub(/::.*/, "", found); print user, found; return }
        depth = 0; name = ""
        for (i = 1; i <= length(found); i++) {
          character = substr(found, i, 1)
          if (character == "{") { depth++; if (depth > 1) name = name "{" }
          else if (character == "}") { depth--; if (depth == 0) { emit(name); return } }
          else if (character == "," && depth == 1) { emit(name); name = "" }
          else if (depth == 1) name = name character
        }
      }
      function emit(name) { gsub(/ /, "", name); sub(/::.*/, "", name); if (name != "") print user, name }
    ' "$file"
  done | sort -u | while read -r user used; do
    if [ "$user" != "$used" ] && { [ -e "$root/$used.rs" ] || [ -d "$root/$used" ]; }; then echo "$user $used"; fi
  done
}

failed=0
check() {
  local loops
  if ! loops=$(edges "$1" "$2" | tsort 2>&1 >/dev/null); then
    echo "cycles: modules of $1 need each other:" >&2
    sed -n 's/^tsort: \([a-z_]*\)$/  \1/p; s/^tsort: .*contains a loop:$/  --/p' <<<"$loops" >&2
    failed=1
  fi
}

check crates/core/src crate
check crates/api/src crate
check crates/placement/src crate
check crates/domains/src/decide crate::decide
[ $failed -eq 0 ] && echo "cycles: no module of a pure crate needs itself"
exit $failed
