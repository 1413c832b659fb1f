"""Every kind of fault in tests/cases/README.md has its test or a reason, and no test has a number that is not there."""

import pathlib
import re
import sys

ROW = re.compile(r"^\| (\d{3}) \| ([^|]+) \| ([^|]+) \|$")
# One test can restate two kinds: `case_055_and_060_…`.
TEST = re.compile(r"\bfn (case_(\d{3}(?:_and_\d{3})*)_\w+)")
# Numbers that no kind has: without them, a row that goes together with its tests would not be missed.
GAPS = """009 012 016 021 023 029 030 033 043 045 047 048 053 058 059 061 066 068 072 074 079 085 087 092 095 097 099 105 107
112 115 118 120 123 126 129 133 139 142 148 150 152""".split()
LAST = 155

rows, faults = {}, []
for line in pathlib.Path("tests/cases/README.md").read_text(encoding="utf-8").splitlines():
    if line.startswith("| ") and not line.startswith(("| number", "| ---")):
        row = ROW.match(line)
        if row is None:
            faults.append(f"not a row: {line}")
        elif row[1] in rows:
            faults.append(f"{row[1]} is there twice")
        else:
            rows[row[1]] = row[3]

tests = {}
for place in ("src", "tests"):
    for path in sorted(pathlib.Path(place).rglob("*.rs")):
        for name, numbers in TEST.findall(path.read_text(encoding="utf-8")):
            for number in numbers.split("_and_"):
                tests.setdefault(number, set()).add(name)

for number, said in rows.items():
    if said.startswith("none: "):
        continue
    if number not in tests:
        faults.append(f"{number} has neither a test nor a reason")
    named = set(re.findall(r"`(\w+)`", said))
    if not named:
        faults.append(f"{number} names no test")
    faults += [f"{number} names {name}, which is no test of it" for name in sorted(named - tests.get(number, set()))]
faults += [f"{number} is not in the table: {', '.join(sorted(tests[number]))}" for number in sorted(tests.keys() - rows.keys())]
kinds = {f"{number:03}" for number in range(1, LAST + 1)} - set(GAPS)
faults += [f"{number} has no row" for number in sorted(kinds - rows.keys())]
faults += [f"{number} is a gap, or past the last number" for number in sorted(rows.keys() - kinds)]

print(f"{len(rows)} kinds of faults, {sum(map(len, tests.values()))} tests")
sys.exit("\n".join(faults) or 0)
