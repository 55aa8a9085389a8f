"""The errors that `fluency.grammar` finds in sentences with one error, and its false alarms.

    python benchmarks/grammar.py [--show] [--prose FILE...]

Every kind of error is put into all correct sentences that can have it, one error a sentence. It
counts as found if the text has more errors than without it; the sentence is between two others, and
is read with straight and with curly apostrophes. False alarms are the errors of the correct
sentences, per 100 words: plain ones, and ones that are harder to read (speech, abbreviations,
addresses, verse). Files of `--prose`, edited texts with one paragraph a line, plain or `.xz`, are
read as well: 3,000 of their paragraphs of 20 words and more. The last lines give the words a second
of texts of several lengths. All sentences are ours, written for this page.
"""

from __future__ import annotations

import argparse
import lzma
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from levelfield.core.sample import Sample
from levelfield.metrics.grammar import WORD, GrammarErrors, slips

BEFORE, AFTER = "The ferry leaves at noon.", "Nobody minds the rain."

PLAIN = """
The keys are on the table next to the lamp.
She doesn't like the smell of wet wool.
He has an old bicycle with a wicker basket.
They were late because the bus had broken down.
I am sure that we can find a better place.
The river was higher than it had been all winter.
Its roof lost a few tiles in the storm.
It's the third time that the alarm has rung today.
The company has sold its last two ships.
It's hard to say which of the two is older.
The museum opens its doors at nine.
It's raining, so the match won't start before four.
A dog wagged its tail under the bench.
The committee hasn't published its report yet.
It's been a quiet week at the office.
It's going to be a long night.
The plan has its own problems.
It's not clear who paid for the repairs.
Their children play in the yard after school.
There is a small garden behind the house.
They're planning a trip to the coast in June.
The neighbours have painted their fence green.
There were no seats left in the front row.
They're not ready to sign the contract.
Most students bring their own lunch.
There are several ways to cook a trout.
They're the best team in the league this year.
The players lost their way in the fog.
Your letter came an hour after I had left.
You're right about the price of the tickets.
Please bring your passport and a recent photo.
You're going to love the view from the tower.
Is your sister still working at the bank?
You're welcome to stay as long as you want.
You're too young to remember that song.
Your idea sounds better than mine.
We waited for an hour and then went home.
The soup tasted better than it looked.
She would rather walk than wait for a taxi.
First boil the water, then add the salt.
This winter was colder than the one before.
He had more patience than his brother.
The new engine is faster than the old one.
Less than half of the voters took part.
The coffee is too hot to drink.
It was too late to call the doctor.
There are too many cars in the old town.
She wants to go to the theatre tonight.
He tried to open the window, but it was stuck.
We are going to meet them at the station.
The suitcase is too heavy for me.
My uncle likes to tell the same three stories.
You should have told me about the strike.
They could have won the game in the last minute.
We would have stayed longer, but the hotel was full.
He must have left his umbrella on the train.
She might have missed the second train.
I could have sworn that the door was locked.
The team can't afford to lose another match.
Be careful not to lose your ticket.
He began to lose hope after the third winter.
One of the screws was loose.
She wore a loose coat over her dress.
I never lose my keys at home.
The new law will affect every farmer in the valley.
The medicine had no effect on the fever.
The drought could affect the price of bread.
The speech had the desired effect.
Noise can affect how well a child sleeps.
Nobody knew what the effect of the treaty would be.
Who's going to feed the cat while we are away?
I met a man whose brother plays the cello.
Who's the woman with the red scarf?
Nobody remembers whose idea it was.
We walked past the old mill on our way home.
Three hours passed before the nurse came back.
In the past, people carried water from the well.
I don't know whether to laugh or cry.
The weather was mild for the time of year.
Take a deep breath and count to ten.
It is hard to breathe at this height.
The guide led us down a narrow path.
He has led the choir for twenty years.
She is an engineer at a large shipyard.
An owl sat on the branch above the gate.
We found an empty bottle and a broken oar.
He ate an apple and a slice of cheese.
It took an honest man to say so.
A university in the north offered her a post.
There is an elephant on the front page.
A European court will decide the case in May.
The clerk wrote the number on an envelope.
The dogs bark whenever a stranger comes near.
My brother works in a factory near the harbour.
The price of oil rises every spring.
The children were asleep before the film ended.
The list of names is pinned to the door.
Both of the lifts are out of order.
The teachers have asked for smaller classes.
The house on the corner was sold last week.
One of the students is from Peru.
Our neighbours grow tomatoes on their balcony.
The women have finished the last two chapters.
The mayor wants to close the road to traffic.
We were tired, but we were happy with the result.
They have never been to the mountains before.
You were right to ask for a receipt.
She has two brothers and a sister.
He is the only doctor on the island.
It has a long handle and a short blade.
I have a meeting with the lawyers on Monday.
He was reading when the lights went out.
She is not sure what he wants from her.
We have enough bread for three days.
They are waiting for the results of the test.
I was born in a village by the sea.
I don't think that he has read the book.
He didn't answer any of my questions.
We can't see the stage from here.
They won't open the pool before summer.
She wasn't at home when the parcel came.
You shouldn't drive on such a night.
The shop isn't open on Sundays.
The engine wouldn't start in the cold.
We haven't heard from him since March.
The windows aren't clean enough.
That's the house where the poet lived.
I'm not the person you are looking for.
We're out of milk and sugar.
She'd left before the letter arrived.
I've seen this film three times.
He turned off the radio and looked out of the window.
She closed the book and went to the kitchen.
The boy picked up the stone and threw it into the lake.
They stopped at the bridge and waited for the others.
He opened the box and found an old map.
The film is slow, but the actors are superb.
Although the food was cold, nobody complained.
The waiter brought the wrong dish twice.
The second half of the novel is much weaker.
Prices fell for the third month in a row.
The minister said that taxes would not rise.
Scientists have found water under the ice.
The court ruled against the company on Friday.
A storm cut power to thousands of homes on the coast.
Shares of the carmaker rose by four percent.
""".strip().splitlines()

PAIRS = """
The road was wet. We drove slowly.
She likes the sea. He prefers the hills.
I missed the train. It was my own fault.
The film was too long. They left before the end.
He was tired. He went to bed at eight.
The soup was cold. She sent it back to the kitchen.
We looked everywhere. We found nothing at all.
The door was open. He could hear every word of it.
My car broke down. I had to walk to the village.
The shop was closed. We came back the next day.
She knows the town. She was born near the market.
They won the cup. They are proud of the whole team.
It snowed all night. The children stayed at home.
The music stopped. Everybody turned to the door.
He wrote three letters. None of them arrived.
The plan failed. Nobody was surprised by that.
""".strip().splitlines()

HARD = """
"I don't know," she said, "but he might."
“Where are you going?” asked the porter.
Dr. Hale met Mr. Ito at 9 a.m. on Jan. 5 in Washington, D.C.
The U.S. economy grew by 2.5 percent in the first quarter.
He had had enough of it, and that that was so surprised no one.
If I were you, I would sell the boat.
It was, as it were, a second birth.
An FBI agent and an MP spoke for an hour about an X-ray.
A one-off payment of $4.50 was made to a user of the service.
Visit www.example.org/rates or write to help@example.org.
The file notes.txt lists items (e.g. nails, screws, etc.) by weight.
Oh no, no, no! That was so, so close.
Well ... I suppose so.
We sell apples, pears and plums; a kilo costs 3.20.
Down by the lake / the reeds are brown / and no birds sing.
Whether he wins or not, the crowd will cheer.
What it is is hard to say.
The man who was here was her uncle.
She told him that the earth goes round the sun and makes one turn a day.
He said it was late, it was dark, and it was time to go.
I came, I saw, I left.
The more he has, the more he wants.
Never before have they had so much rain.
Only then did she see what he meant.
I love this phone 😀 It is so fast!!!
Great value :) Would buy again.
"Stop!" he cried. "You have no right to be here."
Chapter 3: The Return
You and I are the last to leave, and neither he nor they were told.
He lives at No. 5, St. John's Lane.
It is 5 p.m. on a Friday and the office is empty.
Her hair was a dark, almost black, brown.
The band played "An Hour to Go" twice.
He knew it then: there was nothing to lose.
The past few years were better than most.
The teachers' room is next to the boys' changing room.
That year, it was the women who led.
Rock 'n' roll was new in the '50s.
The rest, he thought, would have to wait.
"It don't matter," the old man said.
She was a has-been, and he was a would-be.
To err is human; to forgive, divine.
Which of the two is it?
The ship sank. Because of the fog, nobody saw it.
They walked on. Which way, nobody could say.
Let it be known that the shop is closed.
The doctor insisted that he have a rest.
She watched him walk past, out of the gate, and down the lane.
An heir to a fortune, he had an unusual, even unique, gift.
He can lead the horse to the water.
Can it lead to a war?
The effect on me was small.
It is better, then, to wait.
He asked for more, then left.
There, home at last, she slept.
""".strip().splitlines()

Corruption = Callable[[str], Iterator[str]]
"""From a correct sentence to every sentence with one error of a kind."""


def swaps(*pairs: tuple[str, str]) -> Corruption:
    """Replaces one match of a pattern at a time; a capital at its beginning stays."""

    def corrupted(sentence: str) -> Iterator[str]:
        for pattern, wrong in pairs:
            for match in re.finditer(pattern, sentence, re.IGNORECASE):
                text = match.expand(wrong)
                if match.group()[:1].isupper():
                    text = text[:1].upper() + text[1:]
                yield sentence[: match.start()] + text + sentence[match.end() :]

    return corrupted


def words(*pairs: tuple[str, str]) -> Corruption:
    """Replaces one word, or phrase, at a time."""
    return swaps(*((rf"\b(?:{right})\b(?!')", wrong) for right, wrong in pairs))


def joined(mark: str) -> Corruption:
    """Joins the two sentences of a line."""

    def corrupted(line: str) -> Iterator[str]:
        first, second = line.split(". ")
        small = second if second.startswith("I ") else second[0].lower() + second[1:]
        yield first + mark + (second if mark == "." else small)

    return corrupted


_SMALL = r"the|a|an|of|in|on|to|and|is|was|it|at|for|with|his|her"
_ONE = (
    r"price|company|house|list|mayor|brother|museum|coffee|engine|river|soup|suitcase|plan|film|"
    r"shop|team|road|door|music|weather|winter|half|waiter|minister|food|time|bus"
)
_MANY = r"keys|children|neighbours|players|students|teachers|women|dogs|windows|lifts|actors"

KINDS: dict[str, Corruption] = {
    "verb after a pronoun": words(
        (r"(he|she|it) (?:is|was)", r"\1 are"),
        (r"(he|she|it) has", r"\1 have"),
        (r"(he|she|it) doesn't", r"\1 don't"),
        (r"(they|we|you) (?:are|were)", r"\1 was"),
        (r"(they|we|you|I) have", r"\1 has"),
        (r"I am", "I is"),
        (r"(he|she) (like|want|prefer|know)s", r"\1 \2"),
    ),
    "verb after a noun": words(
        (rf"({_ONE}) (?:is|was)", r"\1 are"),
        (rf"({_ONE}) has", r"\1 have"),
        (rf"({_ONE}) (work|open|want)s", r"\1 \2"),
        (rf"({_MANY}) (?:are|were)", r"\1 is"),
        (rf"({_MANY}) have", r"\1 has"),
        (rf"({_MANY}) (play|bring|bark|grow)", r"\1 \2s"),
    ),
    "a and an": swaps((r"\ban (?=[aeiouh])", "a "), (r"\ba (?=[^aeiou])", "an ")),
    "doubled word": words((rf"({_SMALL})", r"\1 \1")),
    "its for it's": words(("it's", "its")),
    "it's for its": words(("its", "it's")),
    "their, there, they're": words(
        ("their", "there"), ("their", "they're"), ("there", "their"), ("they're", "their")
    ),
    "your and you're": words(("your", "you're"), ("you're", "your")),
    "then and than": words(("than", "then"), ("then", "than")),
    "to and too": words(("too", "to"), ("to", "too")),
    "of for have": words((r"(should|could|would|must|might) have", r"\1 of")),
    "lose and loose": words(("lose", "loose"), ("loose", "lose")),
    "affect and effect": words(("affect", "effect"), ("effect", "affect")),
    "whose and who's": words(("whose", "who's"), ("who's", "whose")),
    "past, breath, led, whether": words(
        ("past", "passed"),
        ("passed", "past"),
        ("whether", "weather"),
        ("weather", "whether"),
        ("breath", "breathe"),
        ("breathe", "breath"),
        ("led", "lead"),
    ),
    "apostrophe left out": swaps((r"\b(\w+)'(t|m|re|d|ve)\b", r"\1\2")),
    "present after past": words(
        ("and looked", "and looks"),
        ("and went", "and goes"),
        ("and threw", "and throws"),
        ("and waited", "and wait"),
        ("and found", "and finds"),
    ),
    "form of the verb": words(
        (r"(\w+n't) (start|answer|afford)", r"\1 \2ed"),
        (r"(has|have|had) (paint|ask|finish|publish|miss)ed", r"\1 \2"),
        ("had broken", "had broke"),
        ("has sold", "has sell"),
        ("have seen", "have saw"),
        ("have won", "have win"),
        ("have been", "have be"),
        (r"to (go|tell|open|meet|call|cook|drink|say)", r"to \1ing"),
    ),
    "plural left out": words((r"(two|three|four|several|many|few|of my) (\w+[^aeis])s", r"\1 \2")),
    "article left out": swaps((r"(?<!^)\b(?:the|an|a(?! few)) ", "")),
    "wrong preposition": words(
        ("at the", "of the"), ("in the", "to the"), ("for", "of"), ("from", "off")
    ),
    "two words exchanged": swaps((r"\b(the|a|an|his|her|my) ([a-z]+)\b", r"\2 \1")),
    "space before a mark": swaps((r"(?<=\w)([,.?])", r" \1")),
    "small letter after a full stop": lambda line: iter([line[0].lower() + line[1:]]),
    "space left out after a full stop": joined("."),
    "comma splice": joined(", "),
    "full stop left out": joined(" "),
}
_OF_TWO_SENTENCES = ("space left out after a full stop", "comma splice", "full stop left out")


def errors(sentence: str) -> int:
    """Returns the number of errors of a sentence between two others, in both apostrophes."""
    text = f"{BEFORE} {sentence} {AFTER}"
    straight, curly = len(slips(text)), len(slips(text.replace("'", "’")))
    assert straight == curly, sentence
    return straight


def recall(show: bool) -> None:
    print("| error | sentences | found |\n| :-- | --: | --: |")
    shares = []
    for kind, corruption in KINDS.items():
        lines = PAIRS if kind in _OF_TWO_SENTENCES else PLAIN
        cases = [
            (line, wrong)
            for line in lines
            for wrong in dict.fromkeys(corruption(line))
            if wrong != line
        ]
        hits = [errors(wrong) > errors(line) for line, wrong in cases]
        shares.append(sum(hits) / len(cases))
        print(f"| {kind} | {len(cases)} | {shares[-1]:.0%} |")
        if show:
            for (_, wrong), hit in zip(cases, hits, strict=True):
                print(f"    {'+' if hit else '-'} {wrong}")
    print(f"mean of the {len(shares)} kinds: {sum(shares) / len(shares):.0%}\n")


def false_alarms(name: str, lines: Sequence[str]) -> None:
    metric = GrammarErrors()
    samples = [Sample(str(n), f"{BEFORE} {line}") for n, line in enumerate(lines)]
    scores = metric.score(samples)
    n_words = sum(len(re.findall(r"[\w'-]+", line)) for line in lines)
    alarms = [(slip, s.text) for s in samples for slip in slips(s.text)]
    print(f"{name}: {len(lines)} lines, {n_words:,} words: {len(alarms)} false alarms, ", end="")
    print(f"{100 * len(alarms) / n_words:.2f} in 100 words; {int((scores.values > 0).sum())} lines")
    for slip, text in alarms:
        print(f"    {slip.rule}: {text[len(BEFORE) + 1 :]}")


def prose(file: Path) -> None:
    with lzma.open(file, "rt") if file.suffix == ".xz" else file.open() as lines:
        texts = [line for line in lines if len(line.split()) >= 20]
    random.Random(1).shuffle(texts)
    samples = [Sample(str(n), text) for n, text in enumerate(texts[:3000])]
    n_words = sum(len(WORD.findall(sample.text)) for sample in samples)
    values = GrammarErrors().score(samples).values
    rules = Counter(slip.rule for sample in samples for slip in slips(sample.text))
    print(f"{file.name}: {len(samples):,} paragraphs, {n_words:,} words: ", end="")
    print(f"{100 * rules.total() / n_words:.2f} errors in 100 words; ", end="")
    print(f"{int((values > 0).sum())} paragraphs have one")
    print("    " + ", ".join(f"{rule} {n}" for rule, n in rules.most_common()))


def pace(n_words: int, seconds: float = 1.0) -> float:
    """Returns the words a second for texts of `n_words` words, in processor time."""
    rng = random.Random(0)
    text = ""
    while len(text.split()) < n_words:
        text += " ".join(rng.sample(PLAIN, len(PLAIN))) + " "
    sample = Sample("1", " ".join(text.split()[:n_words]))
    metric, read = GrammarErrors(), 0
    metric.score([Sample("1", PLAIN[0])])
    begin = time.process_time()
    while time.process_time() - begin < seconds:
        metric.score([sample])
        read += n_words
    return read / (time.process_time() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--show", action="store_true", help="print every wrong sentence")
    parser.add_argument("--prose", nargs="*", type=Path, default=[], help="files of edited texts")
    options = parser.parse_args()
    print(GrammarErrors().signature, "\n")
    recall(options.show)
    false_alarms("plain sentences", [*PLAIN, *PAIRS])
    false_alarms("harder sentences", HARD)
    for file in options.prose:
        prose(file)
    for n in (50, 1_000, 10_000, 100_000):
        print(f"texts of {n:,} words: {pace(n):,.0f} words a second")


if __name__ == "__main__":
    main()
