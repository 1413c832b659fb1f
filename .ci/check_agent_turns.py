"""Checks what the agent_turns example claims, on the JSON that it prints.

    cargo run --release --example agent_turns -- --json | python3 .ci/check_agent_turns.py
"""

import json
import sys

EFFECTS = {"find_charge": "read", "charge": "idempotent_write", "send_receipt": "write"}
FIELDS = {"effect", "calls", "attempts", "retried", "refused", "told"}
RATIO = 0.1
BURST = 20


def main() -> int:
    report = json.load(sys.stdin)
    tools = report["tools"]
    failed = []

    def claim(text: str, holds: bool) -> None:
        print(("ok      " if holds else "FAILED  ") + text)
        if not holds:
            failed.append(text)

    claim("there are three tools, one of each effect", {name: tool["effect"] for name, tool in tools.items()} == EFFECTS)
    claim("each tool has the same figures", all(set(tool) == FIELDS for tool in tools.values()))
    if failed:
        return 1
    find, charge, receipt = (tools[name] for name in EFFECTS)

    claim("no order was charged twice", report["charged_twice"] == 0)
    claim("no receipt was sent twice", report["receipts_twice"] == 0)
    claim("charges asked for again were found by their key", report["replayed"] > 0)
    claim("every call has an answer", all(tool["calls"] == sum(tool["told"].values()) for tool in tools.values()))
    claim("every tool was retried", all(tool["retried"] > 0 for tool in tools.values()))
    claim("retries were refused for want of a budget", "budget_exhausted" in find["refused"])
    claim("a breaker kept calls from the outage", find["refused"].get("breaker_rejected", 0) > 0)
    claim("only the write without a key was stopped for its safety",
          "outcome_unknown" in receipt["refused"]
          and not any("outcome_unknown" in tool["refused"] for tool in (find, charge)))
    earned = find["told"]["ok"] + charge["told"]["ok"]
    claim("the shop's retries stay within its budget",
          find["retried"] + charge["retried"] <= BURST + RATIO * earned)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
