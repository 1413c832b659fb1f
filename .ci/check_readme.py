#!/usr/bin/env python3
"""Does with the README what a new user does: an empty `cargo new`, the commands above a snippet, the snippet, `cargo run`.

The crate is the packaged one, whose folder is the argument; everything else is what the registry has today, since that is
what a new user gets. A server answers 503 once and then 200, and wants one key on both requests.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

PACKAGE = Path(sys.argv[1]).resolve()
TARGET = Path("target/readme").resolve()
ADDRESS = "127.0.0.1:8080"
ENDS_WITH = ["200 OK", "200 OK", '{"order":7,"status":"ok"}']


class Charges(BaseHTTPRequestHandler):
    """A payment API in the last moment of its deploy."""

    keys: list = []

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        Charges.keys.append(self.headers.get("idempotency-key"))
        self.send_response(503 if len(Charges.keys) == 1 else 200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def snippets(readme):
    """Each block of Rust, with the last block of commands before it."""
    commands = ""
    for language, text in re.findall(r"^```(\S+)\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL):
        if language == "console":
            commands = text
        elif language.split(",")[0] == "rust":
            yield commands.split("\n"), text


def run(number, commands, source, address):
    crate = TARGET / f"snippet-{number}"
    shutil.rmtree(crate, ignore_errors=True)
    cargo = {"cwd": crate, "check": True, "text": True, "env": {**os.environ, "CARGO_TARGET_DIR": str(TARGET / "target")}}
    subprocess.run(["cargo", "new", "--quiet", "--vcs", "none", str(crate)], check=True)
    # Not a member of the workspace that it lies in.
    with (crate / "Cargo.toml").open("a") as manifest:
        manifest.write("\n[workspace]\n")
    for command in filter(None, commands):
        add, *words = command.split()[1:]
        assert command.split()[0] == "cargo" and add == "add", command
        if words[0] == "tower-composure":
            ours = words if len(words) > 1 and words[1].startswith("-") else words[:1]
            subprocess.run(["cargo", "add", "--quiet", "--path", str(PACKAGE), *ours], **cargo)
            words = words[len(ours):]
        if words:
            subprocess.run(["cargo", "add", "--quiet", *words], **cargo)
    (crate / "src/main.rs").write_text(source.replace(ADDRESS, address))
    return subprocess.run(["cargo", "run", "--quiet"], stdout=subprocess.PIPE, **cargo).stdout.strip()


def main():
    found = list(snippets(Path("README.md").read_text()))
    assert len(found) == len(ENDS_WITH), f"{len(found)} snippets"
    server = HTTPServer(("127.0.0.1", 0), Charges)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for number, ((commands, source), expected) in enumerate(zip(found, ENDS_WITH), 1):
        Charges.keys.clear()
        last = run(number, commands, source, f"127.0.0.1:{server.server_port}").split("\n")[-1]
        assert last == expected, f"snippet {number} ends with {last}"
        if ADDRESS in source:
            first, *rest = Charges.keys
            assert first and rest == [first], f"snippet {number}: not one key on two requests"
        print(f"snippet {number}: {last}")


main()
