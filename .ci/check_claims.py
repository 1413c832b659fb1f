"""Checks what the payment_deploy example claims, on the JSON that it prints.

    cargo run --release --example payment_deploy -- --json | python3 .ci/check_claims.py
"""

import json
import sys

RATIO = 0.1
BURST = 20

FIELDS = {
    "name", "requests", "calls", "outage_calls", "amplification", "peak_bin", "succeeded",
    "charged_twice", "replayed", "p50_ms", "p99_ms", "refused",
}


def main() -> int:
    runs = json.load(sys.stdin)["runs"]
    by_name = {run["name"]: run for run in runs}
    failed = []

    def claim(text: str, holds: bool) -> None:
        print(("ok      " if holds else "FAILED  ") + text)
        if not holds:
            failed.append(text)

    names = [run["name"] for run in runs]
    claim("there are four runs", names == ["none", "naive", "retry", "composure"])
    claim("each run has the same figures", all(set(run) == FIELDS for run in runs))
    if failed:
        return 1
    none, naive, retry, composure = (by_name[name] for name in names)

    claim("all runs make the same calls", len({(run["calls"], run["outage_calls"]) for run in runs}) == 1)
    claim("none makes one request a call", none["requests"] == none["calls"])
    claim("naive charges orders twice", naive["charged_twice"] > 0)
    claim("naive multiplies load by more than 3", naive["amplification"] > 3)
    claim("retry charges none twice", retry["charged_twice"] == 0)
    claim("composure charges none twice", composure["charged_twice"] == 0)
    bound = 1 + RATIO + BURST / retry["outage_calls"]
    claim(f"retry stays at or below {bound:.3f}", retry["amplification"] <= bound)
    claim("the budget of retry refuses retries", retry["refused"].get("budget_exhausted", 0) > 0)
    claim("retry replays answers that were lost", retry["replayed"] > 0)
    claim("retry succeeds more often than none", retry["succeeded"] > none["succeeded"])
    claim("composure puts less load on the outage than retry", composure["amplification"] < retry["amplification"])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
