"""A system that answers as it is told to, well or badly: `misbehaving.py MODE [LOG]`.

Every answer is `PROMPT and so on.`; ids that were asked for go to LOG, one a line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

MODE = sys.argv[1]
LOG = sys.argv[2] if len(sys.argv) > 2 else os.devnull


def answer(request: dict, **changed: object) -> None:
    record = {"id": request["id"], "text": f"{request['prompt']} and so on."} | changed
    print(json.dumps(record), flush=True)


def log(request: dict) -> None:
    with Path(LOG).open("a") as file:
        file.write(request["id"] + "\n")


def main() -> None:
    if MODE == "reads nothing":
        print('{"id": "nobody", "text": ""}')
        os.close(0)
        time.sleep(0.1)
        return
    requests = [json.loads(line) for line in sys.stdin]
    first, *others = requests
    half = requests[: len(requests) // 2]
    match MODE:
        case "well":
            for request in requests:
                log(request)
                answer(request, tokens=3, input=request["prompt"])
        case "seed":
            for request in requests:
                answer(request, text=os.environ["LEVELFIELD_SEED"])
        case "slowly":
            for request in requests:
                log(request)
                answer(request)
                time.sleep(0.1)
        case "other order":
            for request in reversed(requests):
                answer(request)
        case "twice":
            for request in requests:
                answer(request)
            answer(first)
            answer(first, text="another text")
        case "unknown ids":
            for n in range(3):
                answer(first, id=f"nobody {n}")
            for request in requests:
                answer(request)
        case "garbage":
            out = sys.stdout.buffer
            lines = [b"Loading the model ...", b"[1, 2]", b'{"text": "no id"}', b"\xff\xfe"]
            lines += [b'{"id": "%s", "text": 7}' % first["id"].encode(), b"", b'{"id": "']
            for line in lines:
                out.write(line + b"\n")
            out.flush()
            for request in requests:
                answer(request)
        case "nothing":
            return
        case "hangs":
            for request in half:
                log(request)
                answer(request)
            time.sleep(60)
        case "hangs stubbornly":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            Path(LOG).write_text(str(os.getpid()))
            time.sleep(60)
        case "stays":
            for request in requests:
                answer(request)
            time.sleep(60)
        case "dies":
            for request in half:
                log(request)
                answer(request)
            print("first trouble", file=sys.stderr)
            print(" 10%\r 20%\rout of memory\n", file=sys.stderr)
            sys.exit(3)
        case "dies once":
            for request in requests if Path(LOG).exists() else half:
                answer(request)
            if not Path(LOG).exists():
                Path(LOG).touch()
                sys.exit(3)
        case "floods stderr":
            sys.stderr.write("beginning\n" + "x" * 5_000_000 + "\nthe end\n")
            for request in requests:
                answer(request)
        case "floods stdout":
            while True:
                print("y" * 1000)
        case "leaves a child" | "leaves a child and a half":
            for request in requests if MODE == "leaves a child" else half:
                answer(request)
            if os.fork() == 0:
                Path(LOG).write_text(str(os.getpid()))
                time.sleep(60)
        case "leaves a child in a session of its own":
            for request in requests:
                answer(request)
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    Path(LOG).write_text(str(os.getpid()))
                    time.sleep(60)
                os._exit(0)
            os.wait()
            while not Path(LOG).exists():
                time.sleep(0.01)
        case "long line":
            answer(first, text="word " * 200_000)
            for request in others:
                answer(request)
        case "endless line":
            sys.stdout.write("z" * (1 << 24) + "z\n")
            for request in requests:
                answer(request)
        case "empty texts":
            for request in requests:
                answer(request, text="")
        case "no last line end":
            for request in others:
                answer(request)
            sys.stdout.write(json.dumps({"id": first["id"], "text": "the last"}))
        case "hungry":
            held = bytearray(b"x") * 50_000_000
            time.sleep(0.3)
            for request in requests:
                answer(request, text=str(len(held)))


main()
