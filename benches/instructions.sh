#!/usr/bin/env bash
# Instructions of one call that succeeds, by the difference of two runs under callgrind.
set -euo pipefail
cd "$(dirname "$0")"
cargo build --release --quiet --bin instructions
binary=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json,sys; print(json.load(sys.stdin)["target_directory"])')/release/instructions
count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$binary" "$1" "$2" 2>&1 |
        sed -n 's/.*refs: *//p' | tr -d ' ,'
}
echo '| case | instructions a call |'
echo '| --- | ---: |'
for case in $("$binary"); do
    few=$(count "$case" 1000)
    many=$(count "$case" 11000)
    echo "| $case | $(((many - few) / 10000)) |"
done
