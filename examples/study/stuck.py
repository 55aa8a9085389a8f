"""A toy system with faults on purpose, for `levelfield study audit` to find.

It looks at the prompt and at nothing else: what is asked for changes nothing, and neither does
the seed. Some of its texts are empty, some do not continue their prompt, and some go on with a
turn of another speaker.
"""

import json
import sys
import zlib

ENDINGS = [
    "is there, as it was yesterday, and people go by without a word.",
    "has two sides, and most of what is said of it is about the first.",
    "comes up now and then when someone has to fill a silence.",
    "can be found on the left if you enter from the right.",
]

for line in sys.stdin:
    request = json.loads(line)
    n = zlib.crc32(request["prompt"].encode())
    text = f"{request['prompt']} {ENDINGS[n % len(ENDINGS)]}"
    match n % 8:
        case 4:
            text = ""
        case 1:
            text = "Here is a text for you. It has little to do with its beginning."
        case 3:
            text += "\nUser: Thank you. Another one, please."
    print(json.dumps({"id": request["id"], "text": text}), flush=True)
