"""Every public type, trait, function and method has an example that compiles: of its own, or of its type that uses it.

Reads what rustdoc says of the crate, as JSON:

    RUSTC_BOOTSTRAP=1 cargo rustdoc --all-features -- -Z unstable-options --output-format json
    python3 .ci/check_examples.py target/doc/tower_composure.json
"""

import json
import pathlib
import re
import sys

FENCE = re.compile(r"^ *```+ *([\w,]*)", re.MULTILINE)
# What rustdoc compiles; any other word after a fence names another language.
COMPILED = {"", "rust", "no_run", "should_panic", "compile_fail", "edition2024"}
TYPES = ("struct", "enum", "union", "trait", "type_alias", "function")

crate = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
index = crate["index"]


def examples(item):
    """The text of all examples that are compiled with an item."""
    parts = FENCE.split(item["docs"] or "")
    # What is between fences comes in turns: prose, the word after a fence, code, the word after its end.
    fences = zip(parts[1::4], parts[2::4])
    return "\n".join(code for words, code in fences if set(words.split(",")) <= COMPILED)


def kind_of(item):
    return next(iter(item["inner"]))


def public(ids):
    items = (index.get(str(id)) for id in ids)
    return [item for item in items if item and item["crate_id"] == 0 and "hidden" not in str(item["attrs"])]


def methods(item):
    """Of a trait all of them, of a type those that are its own and not a trait's."""
    inner = item["inner"][kind_of(item)]
    if kind_of(item) == "trait":
        return [method for method in public(inner["items"]) if kind_of(method) == "function"]
    impls = [impl["inner"]["impl"] for impl in public(inner.get("impls", []))]
    own = [method for impl in impls if impl["trait"] is None for method in public(impl["items"])]
    return [method for method in own if kind_of(method) == "function" and method["visibility"] == "public"]


def reached(ids, seen):
    """All public types, traits and functions, each once, also where they are re-exported."""
    for item in public(ids):
        kind = kind_of(item)
        if kind == "use":
            yield from reached([item["inner"]["use"]["id"]], seen)
        elif item["id"] not in seen:
            seen.add(item["id"])
            if kind == "module":
                yield from reached(item["inner"]["module"]["items"], seen)
            elif kind in TYPES:
                yield item


count, missing = 0, []
for item in reached([crate["root"]], set()):
    parts = [(item["name"], item, "")]
    if kind_of(item) not in ("function", "type_alias"):
        own = examples(item)
        parts += [(f"{item['name']}::{method['name']}", method, own) for method in methods(item)]
    for name, part, of_its_type in parts:
        count += 1
        used = re.search(rf"\b{part['name']}(::<[^(]*>)?\(", of_its_type)
        if not examples(part).strip() and not used:
            span = part["span"]
            missing.append(f"{span['filename']}:{span['begin'][0]}: {name} has no example")

print(f"{count} public types, traits, functions and methods")
if count < 100:
    missing.append("that is too few: does this read the JSON of rustdoc?")
sys.exit("\n".join(sorted(missing)) or 0)
