"""A program with an action for each first argument. Tests find the process by a token in the last argument."""

import json
import os
import signal
import subprocess
import sys

what, *rest = sys.argv[1:]
if what == "report":
    print(json.dumps({"argv": rest, "cwd": os.getcwd(), "env": dict(os.environ), "stdin": sys.stdin.read()}))
elif what == "exit":
    print("some output")
    print("a problem", file=sys.stderr)
    sys.exit(int(rest[0]))
elif what == "print":
    sys.stdout.buffer.write(rest[0].encode().decode("unicode_escape").encode("latin-1"))
elif what == "ignore":
    print("not reading")
elif what == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
elif what == "steps":
    for number in range(3):
        print(f"step {number}", flush=True)
    print("done", file=sys.stderr)
elif what == "flood":
    while True:
        sys.stdout.write("y\n" * 1000)
elif what == "write":
    with open(rest[0], "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\nimage")
elif what == "stubborn":
    # The program and its child, which has left the process group, ignore SIGTERM.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if len(rest) == 2:
        subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, "stubborn", "alone", "child", rest[1]], start_new_session=True
        )
        print("started", flush=True)
    while True:
        signal.pause()
elif what == "leave":
    subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, "stubborn", "alone", "child", rest[0]], start_new_session=True
    )
    print("left")
