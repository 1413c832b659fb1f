#!/usr/bin/env bash
# Instructions of one call that succeeds, by the difference of two runs under callgrind. Fails where one of ours costs
# more than it may.
set -euo pipefail
cd "$(dirname "$0")"
cargo build --release --locked --quiet --bin instructions
target=$(cargo metadata --format-version 1 --no-deps | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
binary=$target/release/instructions

count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$binary" "$1" "$2" 2>&1 |
        sed -n 's/.*refs: *//p' | tr -d ' ,'
}

echo '| case | instructions a call | over bare | at most |'
echo '| --- | ---: | ---: | ---: |'
bare=
failed=0
while read -r case most; do
    # The breakers' windows are full before the calls that make the difference.
    few=$(count "$case" 1000)
    many=$(count "$case" 11000)
    calls=$(((many - few) / 10000))
    bare=${bare:-$calls}
    limit=$most
    if [ -n "$most" ] && [ "$calls" -gt "$most" ]; then
        limit="$most, NOT MET"
        failed=1
    fi
    echo "| $case | $calls | $((calls - bare)) | $limit |"
done < <("$binary")
exit "$failed"
