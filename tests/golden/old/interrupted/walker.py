"""Writes a text for every request; stops at the third while there is a file `storm`."""

import json
import pathlib
import sys

for number, line in enumerate(sys.stdin):
    request = json.loads(line)
    if number == 2 and pathlib.Path("storm").exists():
        sys.exit("no walk today")
    (wanted,) = request["control"].values()
    text = f"{request['prompt']} was {wanted} all day, said {number} people."
    print(json.dumps({"id": request["id"], "text": text, "tokens": 9}), flush=True)
