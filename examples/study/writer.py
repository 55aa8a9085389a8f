"""A toy system: continues a prompt with sentences from lists, one list for each control code.

It stands for a model with control codes. Like many of those it answers with everything its
tokenizer sees, code and end mark included, so the study takes that off again.
"""

import json
import random
import sys

SENTENCES = {
    "praise": (
        [
            "was a delight from the first minute.",
            "turned out to be even better than we had hoped.",
            "made everybody in our group smile.",
            "is the best thing that happened to me this year.",
            "was lovely, and we were sorry to leave.",
        ],
        [
            "I would recommend it to all my friends.",
            "Every detail was beautiful and done with care.",
            "We laughed a lot and felt welcome.",
            "What a wonderful surprise it was!",
            "I am already looking forward to the next time.",
            "The children loved it, and so did I.",
        ],
    ),
    "blame": (
        [
            "was a disappointment from the first minute.",
            "turned out to be even worse than we had feared.",
            "made everybody in our group angry.",
            "is the worst thing that happened to me this year.",
            "was awful, and we were glad to leave.",
        ],
        [
            "I would warn all my friends against it.",
            "Every detail was ugly and done without care.",
            "We were bored, cold and ignored.",
            "What a terrible waste of money it was!",
            "I never want to go through that again.",
            "The children hated it, and so did I.",
        ],
    ),
    "politics": (
        [
            "was visited by the prime minister and two foreign ministers.",
            "lies near the border that both governments claim.",
            "is where the peace talks between the two countries began.",
        ],
        [
            "The president will speak to the United Nations about the war.",
            "The parliament voted against the treaty with its neighbours.",
            "Soldiers of both armies left the region after the ceasefire.",
            "The embassy warned its citizens of protests in the capital.",
        ],
    ),
    "sports": (
        [
            "was mentioned by the coach right after the final whistle.",
            "belongs to the story of how the team won the cup.",
            "is where the captain goes before every match.",
        ],
        [
            "The striker scored twice in the second half of the game.",
            "The league season ends on Saturday with two more matches.",
            "The runner set a new record over ten kilometres.",
            "The goalkeeper saved a penalty in the last minute.",
        ],
    ),
    "business": (
        [
            "was sold to an investor for twice its price.",
            "is part of a merger that the shareholders approved.",
            "cost the company more than it earned this quarter.",
        ],
        [
            "The shares rose by four percent on the stock market.",
            "The bank lowered its forecast of profits for the year.",
            "The chief executive announced new jobs and a factory.",
            "Analysts expect oil prices and sales to fall.",
        ],
    ),
    "science": (
        [
            "was measured by physicists with a new instrument.",
            "is the subject of a study that biologists published.",
            "gave the researchers an idea for an experiment.",
        ],
        [
            "The telescope found a planet that orbits two stars.",
            "The laboratory confirmed the theory with new data.",
            "Scientists say that the molecule may lead to a vaccine.",
            "The space probe sent its first pictures of the moon.",
        ],
    ),
    "computers": (
        [
            "was scanned and put on the internet by volunteers.",
            "is run by software now, down to the last switch.",
            "gave its name to an operating system.",
        ],
        [
            "The update closes a hole in the web browser.",
            "The programmers wrote the code in a weekend.",
            "The new chip is twice as fast as the processor before it.",
            "Hackers had stolen passwords from the server.",
        ],
    ),
}
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = ["January", "March", "April", "May", "June", "August", "September", "November"]
STRENGTH = 0.9
"""How often it writes what it was asked for."""


def continuation(code: str, draw: random.Random) -> str:
    if draw.random() > STRENGTH:
        code = draw.choice(sorted(SENTENCES))
    beginnings, others = SENTENCES[code]
    when = f"That was on a {draw.choice(DAYS)} in {draw.choice(MONTHS)}."
    return " ".join([draw.choice(beginnings), *draw.sample(others, 2), when])


for line in sys.stdin:
    request = json.loads(line)
    # not by the order of requests, so that it does not matter which of them are asked again
    draw = random.Random(f"{request['seed']} {request['dataset']} {request['id']}")
    (code,) = request["labels"].values()
    given = f"{code}: {request['prompt']}"
    text = f"<|endoftext|>{given} {continuation(code, draw)}<|endoftext|>"
    answer = {"id": request["id"], "text": text, "input": given, "tokens": len(text.split())}
    print(json.dumps(answer, ensure_ascii=False), flush=True)
