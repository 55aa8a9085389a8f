"""The formats of the labelled sets, on rows of our own."""

from __future__ import annotations

import io
import zipfile

import pytest

from levelfield.core.errors import InputError
from levelfield.datasets import labelled, wordlist


def archive(**members: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as zipped:
        zipped.writestr("set/", "")
        for name, content in members.items():
            zipped.writestr("set/" + name.replace("__", "/"), content)
    return held.getvalue()


def read(samples):
    return [(s.id, s.text, dict(s.control)) for s in samples]


def test_sst2(files):
    parts = files(train={"t.tsv": "so\tgood\t1\nbad !\t0\n"}, dev={"d.tsv": "fine\t1\n"})
    assert read(labelled.sst2(parts)) == [
        ("train:1", "so\tgood", {"sentiment": "positive"}),
        ("train:2", "bad !", {"sentiment": "negative"}),
        ("dev:1", "fine", {"sentiment": "positive"}),
    ]
    with pytest.raises(InputError, match=r"t.tsv:2: expected a sentence, a tab and 0 or 1"):
        labelled.sst2(files(train={"t.tsv": "good\t1\nfine\t2\n"}))


def test_yelp(files):
    parts = files(dev={"sentiment.dev.1": "nice\n", "sentiment.dev.0": "bad\n\nworse\u2028still\n"})
    assert read(labelled.yelp(parts)) == [
        ("dev-negative:1", "bad", {"sentiment": "negative"}),
        ("dev-negative:3", "worse\u2028still", {"sentiment": "negative"}),
        ("dev-positive:1", "nice", {"sentiment": "positive"}),
    ]


CLASSES = "World\nSports\nBusiness\nSci/Tech\n"
LONG = "Our own words about a match that was very long and that nobody won, so that both "


def test_ag_news_is_read_by_description_and_dev_loses_what_test_has(files, monkeypatch):
    test = files(test={"classes.txt": CLASSES, "test.csv": f'"2","Draw","{LONG}play on"\n'})
    (sample,) = labelled.ag_news(test)
    assert read([sample]) == [("test:1", LONG + "play on", {"topic": "Sports"})]
    assert sample.extra == {"title": "Draw"}

    monkeypatch.setattr(labelled, "paths", lambda *_, **__: test["test"])
    dev = files(dev={"dev.csv": f'label,content\n2,"{LONG.upper()} rest"\n4,"Atoms, and\nso on"\n'})
    assert read(labelled.ag_news_dev(dev)) == [
        ("dev:2", "Atoms, and\nso on", {"topic": "Sci/Tech"})
    ]
    with pytest.raises(InputError, match=r"test.csv:1: expected class, title, description"):
        labelled.ag_news(files(test={"classes.txt": CLASSES, "test.csv": '"5","a","b"\n'}))


def test_pt16_leaves_out_rows_without_a_sentence(files):
    rows = "SID,label,sentence\n1,-2.8,hey ho\n2,None,None\n3,1.5,None\n4,2,Dear all\n"
    samples = labelled.pt16(files(test={"test.csv": rows}))
    assert [(s.id, s.text) for s in samples] == [("test:1", "hey ho"), ("test:4", "Dear all")]
    assert samples[0].ratings == {"formality": {"mean": -2.8}}
    with pytest.raises(InputError, match="no column sentence"):
        labelled.pt16(files(test={"test.csv": "SID,label\n1,2\n"}))
    with pytest.raises(InputError, match=r"test.csv:2: expected a number, found 'high'"):
        labelled.pt16(files(test={"test.csv": "SID,label,sentence\n1,high,yes\n"}))


def test_archives_of_reviews_and_sentences(files):
    reviews = archive(neg__a1="dull .\nvery .", pos__b2="fun .", README="read me")
    assert read(labelled.movie_reviews(files(all={"m.zip": reviews}))) == [
        ("negative:a1", "dull .\nvery .", {"sentiment": "negative"}),
        ("positive:b2", "fun .", {"sentiment": "positive"}),
    ]
    polarity = archive(**{"rt-polarity.neg": "dull \n", "rt-polarity.pos": "fun\n\nnew\n"})
    assert read(labelled.sentence_polarity(files(all={"s.zip": polarity}))) == [
        ("negative:1", "dull", {"sentiment": "negative"}),
        ("positive:1", "fun", {"sentiment": "positive"}),
        ("positive:3", "new", {"sentiment": "positive"}),
    ]
    plots = archive(**{"plot.tok.gt9.5000": "he left\n", "quote.tok.gt9.5000": "i liked it\n"})
    assert [
        s.control["subjectivity"] for s in labelled.subjectivity(files(all={"p.zip": plots}))
    ] == [
        "objective",
        "subjective",
    ]


def test_words_of_a_topic_come_without_what_a_terminal_left(files, monkeypatch):
    lists = files(space={"space.txt": "moon\nsolar wind      [71/1852]\n\n orbit\n"})
    monkeypatch.setitem(wordlist.__globals__, "paths", lambda *_, **__: lists["space"])
    assert wordlist("space") == ("moon", "solar wind", "orbit")
