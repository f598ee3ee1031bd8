#!/usr/bin/env bash
# Writes the pictures of docs/dashboard.md: runs the test of the dashboard in Chromium, and keeps the pictures that the page
# shows. Needs chromium and chromium-driver.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

: "${COPPICE_SCREENSHOTS:=$PWD/docs/pictures}"
all=$(mktemp -d)
trap 'rm -rf "$all"' EXIT
COPPICE_SCREENSHOTS=$all cargo test --locked -p coppice --test real_dashboard every_page
mkdir -p "$COPPICE_SCREENSHOTS"
for name in $(grep -o 'pictures/dashboard-[a-z-]*\.png' docs/*.md README.md | sed 's|.*/||' | sort -u); do
  cp "$all/$name" "$COPPICE_SCREENSHOTS/$name"
  size=$(stat -c %s "$COPPICE_SCREENSHOTS/$name")
  echo "$name: $size bytes"
  [ "$size" -lt 204800 ] || { echo "$name is larger than 200 KB" >&2; exit 1; }
done
