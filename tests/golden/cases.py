"""The command lines whose outcomes are pinned, in groups that share their models."""

from __future__ import annotations

from dataclasses import replace

from golden import FLOAT32, Case

SOURCE = "bleu.source chrf.source rouge-1.source rouge-2.source rouge-l.source"
REFERENCES = SOURCE.replace("source", "references")
DISTINCT = "diversity.distinct-1 diversity.distinct-2 diversity.distinct-3"
KEYWORDS = "keywords.all keywords.any keywords.cov keywords.coverage keywords.ext-cov"


def score(name: str, files: str, metrics: str, options: str = "", more: str = "") -> Case:
    """A case of `score`; names of metrics and options stand with blanks between them."""
    words = ["score", files, *(f"-m {m}" for m in metrics.split())]
    words += [f"-o '{o}'" for o in options.split()]
    return Case(name, " ".join([*words, more]).strip())


def each(name: str, files: str, metrics: str, *options: str, more: str = "") -> list[Case]:
    """A case of `score` for every set of options."""
    return [score(f"{name} with {o}", files, metrics, o, more) for o in options]


OVERLAP = [
    score("overlap with sources", "rewrites.jsonl", f"{SOURCE} style.degenerate", more="--json"),
    score("overlap with references", "rewrites.jsonl", REFERENCES),
    score("overlap with sources on odd records", "odd.jsonl", f"{SOURCE} style.degenerate"),
    score("overlap with references on odd records", "odd.jsonl", REFERENCES),
    score(
        "parts of overlap", "odd.jsonl", "rouge-l.references bleu.references chrf.references",
        more="--parts parts.jsonl",
    ),
    score("corpus overlap", "rewrites.jsonl", "corpus-bleu corpus-chrf", more="--json"),
    score("corpus overlap on odd records", "odd.jsonl", "corpus-bleu corpus-chrf"),
    score("corpus overlap of all texts", "odd.jsonl", "corpus-bleu corpus-chrf",
          more="--corpus-by none"),
    *each(
        "bleu", "odd.jsonl", "bleu",
        "variant=nltk", "variant=lai-2022", "tokenize=intl", "tokenize=char", "tokenize=zh",
        "tokenize=none", "lowercase=true",
    ),
    *each(
        "corpus bleu", "odd.jsonl", "corpus-bleu",
        "tokenize=intl", "tokenize=char", "tokenize=zh", "tokenize=none lowercase=true",
    ),
    *each("chrf", "odd.jsonl", "chrf corpus-chrf", "char_order=4 word_order=2 beta=3"),
    *each(
        "rouge", "odd.jsonl", "rouge-1 rouge-2 rouge-l",
        "value=precision", "value=recall", "beta=2", "multiple=jackknife", "multiple=mean",
        "tokenizer=unicode", "stemmer=true", "variant=lai-2022",
    ),
    score("meteor", "rewrites.jsonl", "meteor", "synonyms=none"),
    *each(
        "meteor", "odd.jsonl", "meteor",
        "synonyms=none", "synonyms=none variant=lai-2022",
        "synonyms=none alpha=0.8 beta=2 gamma=0.4",
    ),
]  # fmt: skip

COUNTS = [
    score("diversity", "texts.jsonl", "diversity", more="--json"),
    score("diversity of odd records", "odd.jsonl", "diversity"),
    *each(
        "diversity by system", "odd.jsonl", DISTINCT,
        "denominator=tokens", "floor=2", "denominator=tokens floor=1", "tokenizer=models/gpt2",
        more="--corpus-by system",
    ),
    *each("diversity by system", "odd.jsonl", "diversity.hdd-1 diversity.hdd-2 diversity.hdd-3",
          "draws=20", "draws=42 tokenizer=models/t5", more="--corpus-by system"),
    score("diversity of all texts", "letters.jsonl", "diversity", more="--corpus-by none --json"),
    score("keywords", "odd.jsonl", KEYWORDS, more="--parts parts.jsonl --json"),
    score("keywords of continuations", "odd.jsonl", KEYWORDS, "text=continuation"),
    *each("keywords", "odd.jsonl", "keywords.all keywords.any keywords.coverage",
          "match=substring", "match=lemma", "case=exact", "match=substring case=exact"),
    score("grammar", "slips.jsonl", "fluency.grammar", more="--parts parts.jsonl --json"),
    *each("grammar", "slips.jsonl", "fluency.grammar", "spacing=ignore", "text=continuation"),
    score("grammar of odd records", "odd.jsonl", "fluency.grammar"),
]  # fmt: skip


def slow(case: Case) -> Case:
    """The same for `make test-slow` alone."""
    return replace(case, slow=True)


AGAINST = "bertscore.source mover.source wmd.source"


def model(case: Case) -> Case:
    """The same with the tolerance of float32."""
    return replace(case, tolerance=FLOAT32)


MINILM = [
    slow(score("ctrleval", "texts.jsonl", "ctrleval", more="--json")),
    score("ctrleval on odd records", "odd.jsonl", "ctrleval"),
    score("parts of ctrleval", "few.jsonl", "ctrleval", more="--parts parts.jsonl"),
    score("ctrleval of letters", "letters.jsonl", "ctrleval", "attribute=formality.toml"),
    *each(
        "coherence", "odd.jsonl", "ctrleval.coherence",
        "weights=mean", "weights=max", "weights=min", "single=score", "iwf=wordfreq:de",
    ),
    *each(
        "consistency", "odd.jsonl", "ctrleval.consistency",
        "match=loose", "weights=mean", "weights=max", "weights=min match=loose",
    ),
    *each(
        "attribute relevance", "odd.jsonl", "ctrleval.attribute-relevance",
        "weights=mean", "weights=max", "weights=min", "attribute=sentiment", "attribute=topic",
    ),
    score("embeddings and sources", "rewrites.jsonl", f"{AGAINST} cosine.source", more="--json"),
    score(
        "embeddings and references", "rewrites.jsonl",
        "bertscore.references mover.references wmd.references cosine.references",
    ),
    score("embeddings on odd records", "odd.jsonl", "bertscore mover wmd cosine"),
    *each(
        "bertscore", "odd.jsonl", "bertscore",
        "value=precision", "value=recall", "layer=3", "baseline=0.3", "idf=corpus.txt",
    ),
    *each("mover", "odd.jsonl", "mover", "idf=corpus.txt"),
    *each(
        "wmd", "odd.jsonl", "wmd",
        "vectors=vectors.txt", "vectors=vectors.txt unit_length=true", "lowercase=false",
        "stop_words=stop.txt",
    ),
]  # fmt: skip

SEQ2SEQ = [
    score("infilling with pegasus", "odd.jsonl", "ctrleval", "iwf=wordfreq",
          "--model models/pegasus"),
    score("infilling with t5", "odd.jsonl", "ctrleval", "", "--model models/t5"),
    score("infilling with bart", "odd.jsonl", "ctrleval", "", "--model models/bart"),
    score("infilling with the embedded expert", "letters.jsonl", "ctrleval", "",
          "--model offline/infill-expert"),
    score("infilling with the embedded amateur", "few.jsonl", "ctrleval", "normalize=none",
          "--model offline/infill-amateur"),
    *each("ctrleval", "few.jsonl", "ctrleval",
          "normalize=none", "patterns=bartscore", "patterns=ppl-gpt",
          more="--model models/bart"),
    *each("coherence of one sentence", "few.jsonl", "ctrleval.coherence",
          "single=score", "single=score normalize=none", "iwf=t5.iwf", more="--model models/t5"),
    score("bartscore", "rewrites.jsonl", "bartscore", "", "--model models/bart"),
    score("bartscore on odd records", "odd.jsonl", "bartscore", "",
          "--model models/bart"),
    *each("bartscore", "odd.jsonl", "bartscore", "average=tokens", more="--model models/bart"),
    *each("bartscore", "odd.jsonl", "bartscore.f bartscore.precision bartscore.recall",
          "references=max", more="--model models/bart"),
    *each("bartscore", "odd.jsonl", "bartscore.source", "given=prompt", more="--model models/t5"),
    *each("bartscore", "dialogue.jsonl", "bartscore.source", "given=context",
          more="--model models/t5"),
    score("infilling perplexity", "texts.jsonl", "fluency.infilling-perplexity", "",
          "--model offline/infill-expert"),
    *each("infilling perplexity", "odd.jsonl", "fluency.infilling-perplexity",
          "value=nll", "end=false", more="--model models/t5"),
    score("questions", "dialogue.jsonl", "questions", "", "--model models/t5"),
    score("naturalness of texts", "texts.jsonl", "questions.naturalness", "", "--model models/t5"),
    *each("questions", "dialogue.jsonl", "questions", "over=sentences", "over=turns",
          more="--model models/t5"),
    *each("question", "odd.jsonl", "question",
          "question=icy.toml", "question=naturalness over=sentences", more="--model models/t5"),
    score("llm judge of all aspects", "letters.jsonl", "llm-judge", "",
          "--model offline/infill-amateur"),
    score("llm judge on odd records", "odd.jsonl", "llm-judge.consistency llm-judge.relevance", "",
          "--model offline/infill-amateur"),
    *each("llm judge", "dialogue.jsonl", "llm-judge.coherence llm-judge.overall",
          "task=dialogue", "task=reply", more="--model offline/infill-amateur"),
    score("llm judge by a template", "odd.jsonl", "llm-judge.overall", "template=polite.toml",
          "--model offline/infill-amateur"),
    score("llm judge whose question is too long", "letters.jsonl", "llm-judge.overall", "",
          "--model models/gpt2 -o bos=true"),
]  # fmt: skip

FLUENCY = "fluency.perplexity fluency.slor fluency.corpus-perplexity"
CAUSAL = [  # with BOS, as values of GPT-2 are published
    score("perplexity and slor", "texts.jsonl", FLUENCY,
          "", "--model models/gpt2 -o bos=true --json"),
    score("perplexity and slor on odd records", "odd.jsonl",
          FLUENCY, "", "--model models/gpt2 -o bos=true"),
    *each("fluency", "odd.jsonl", FLUENCY,
          "text=continuation", more="--model models/gpt2 -o bos=true"),
    *each("slor", "odd.jsonl", "fluency.slor", "unigram=bos", "corpus=corpus.txt",
          "corpus=gpt2.unigrams", "unigram=bos text=continuation",
          more="--model models/gpt2 -o bos=true"),
    *each("style perplexity", "letters.jsonl", "style.perplexity",
          "models=formal=models/gpt2,informal=models/gpt2-other", more="-o bos=true"),
    score("ctrleval by likelihood", "odd.jsonl", "ctrleval", "", "--model models/gpt2 -o bos=true"),
    *each("coherence by likelihood", "few.jsonl", "ctrleval.coherence", "form=nats", "form=log-p",
          more="--model models/gpt2 -o bos=true --parts parts.jsonl"),
    *each("consistency by likelihood", "few.jsonl", "ctrleval.consistency", "form=share",
          more="--model models/gpt2 -o bos=true"),
    *each("attribute relevance by likelihood", "few.jsonl", "ctrleval.attribute-relevance",
          "form=channel", "form=after-calibrated", "weights=label-mass",
          more="--model models/gpt2 -o bos=true"),
]  # fmt: skip

SMOLLM2 = [
    slow(Case("the default", "score few.jsonl --parts parts.jsonl --json")),
    *map(
        slow,
        each(
            "attribute relevance",
            "few.jsonl",
            "composite.attribute-relevance",
            "judge=none",
            "channel=true",
        ),
    ),
    score("fluency", "few.jsonl", FLUENCY),
    score("topicality", "few.jsonl", "topicality"),
    score("slor by bos", "few.jsonl", "fluency.slor", "unigram=bos"),
    slow(score("llm judge", "few.jsonl", "llm-judge.coherence")),
    slow(score("momentum", "few.jsonl", "cdm.momentum")),
]

INFILLERS = "amateur=offline/infill-amateur expert=offline/infill-expert"
T5 = "amateur=models/t5 expert=models/t5"
GPT2 = "amateur=models/gpt2 expert=models/gpt2-other form=conditional"
CONTRAST = [
    score("momentum", "letters.jsonl", "cdm.momentum", INFILLERS),
    score("momentum on odd records", "odd.jsonl", "cdm.momentum", INFILLERS, "--parts parts.jsonl"),
    *each("momentum", "odd.jsonl", "cdm.momentum",
          f"{GPT2}", f"{GPT2} pooling=sum", f"{GPT2} pooling=max", f"{GPT2} pooling=min",
          f"{GPT2} task=commonsense", more="-o bos=true"),
    *each("momentum", "odd.jsonl", "cdm.momentum", f"{INFILLERS} task=commonsense",
          f"{INFILLERS} form=conditional", f"{INFILLERS} form=conditional gap=false",
          f"{INFILLERS} pooling=classifier pooler=pooler.json",
          "amateur=models/fim expert=models/fim"),
    *each("momentum of dialogues", "dialogue.jsonl", "cdm.momentum",
          f"{GPT2} task=dialogue", f"{GPT2} task=dialogue turns=mean",
          f"{GPT2} task=dialogue turns=last", more="-o bos=true"),
    *each("momentum of dialogues", "dialogue.jsonl", "cdm.momentum", f"{INFILLERS} task=dialogue",
          f"{INFILLERS} task=dialogue turns=last separator=|"),
]  # fmt: skip

JUDGED = (
    "control.average control.both control.majority control.probability control.balanced-accuracy"
)
JUDGES = [
    slow(
        score("control with the offline judges", "texts.jsonl", JUDGED, "judges=offline", "--json")
    ),
    *each("control", "odd.jsonl", JUDGED, "judges=offline", "judges=minilm,vader",
          "judges=models/classifier", "judges=judges.toml"),
    *each("control", "odd.jsonl", JUDGED, "judges=offline text=continuation",
          "judges=linear,vader", "judges=vader"),
    *each("control", "odd.jsonl", "control.majority control.both",
          "judges=offline rule=probability", "judges=judges.toml rule=study"),
    score("control of letters", "letters.jsonl", JUDGED, "judges=judges.toml"),
    score("control of rewrites", "rewrites.jsonl", JUDGED, "judges=linear"),
    score("control without the judges of the preset", "odd.jsonl", "control.average",
          "judges=nobody/no-such-judge"),
    slow(
        score(
            "style transfer", "rewrites.jsonl", "", "judges=offline", "--task style-transfer --json"
        )
    ),
    score("discriminator", "texts.jsonl", "discriminator.score", "", "--model models/classifier"),
    *each("discriminator", "odd.jsonl", "discriminator.score", "value=logit", "text=continuation",
          more="--model models/classifier"),
    *each("discriminator", "dialogue.jsonl", "discriminator.score", "task=dialogue",
          more="--model models/classifier"),
    score("bleurt", "rewrites.jsonl", "bleurt", "", "--model models/bleurt"),
    score("bleurt on odd records", "odd.jsonl", "bleurt", "", "--model models/bleurt"),
    *each("bleurt", "odd.jsonl", "bleurt.references", "references=mean",
          more="--model models/bleurt"),
]  # fmt: skip

CORRELATE = "correlate rated-scores.jsonl --ratings rated.jsonl"
COHERENCE = f"{CORRELATE} --aspect coherence -m ctrleval -m cdm"
COMMANDS = [
    Case("a metric that does not exist", "score odd.jsonl -m ctrleval.coherense"),
    Case("an option that does not exist", "score odd.jsonl -m bleu.source -o tokenise=13a"),
    Case("a choice that does not exist", "score odd.jsonl -m bleu.source -o variant=moses"),
    Case("a field that no sample has", "score texts.jsonl -m bleu.source"),
    Case("a model that is not here",
         "score odd.jsonl -m cosine.source --model nobody/no-such-model"),
    Case("comet without its environment",
         "score rewrites.jsonl -m comet.source -o environment=nowhere --allow-pickle"),
    Case("agreement", "agreement rated.jsonl --json"),
    Case("agreement by survey", "agreement rated.jsonl --by control.survey --level ordinal --json"),
    Case("agreement on names", "agreement rated.jsonl --aspect fluency --level nominal --json"),
    Case("correlation", f"{CORRELATE} --json"),
    Case("correlation of systems", f"{CORRELATE} --level system --json"),
    *(
        Case(f"correlation within a {group}", f"{COHERENCE} --group {group} --json")
        for group in ("system", "source")
    ),
    *(
        Case(f"correlation by {name}", f"{COHERENCE} --statistic {name} --json")
        for name in ("pearson", "spearman", "kendall", "tau-like", "accuracy", "calibrated")
    ),
    Case("drift", f"{COHERENCE} --drift --correction bonferroni --compare spearman --json"),
    Case("the metrics", "metrics --json"),
    Case("a comparison of texts", "compare rewrites.jsonl -m rouge-1.references --json"),
    Case("a comparison of logs",
         "compare logs/inspect-small.json logs/inspect-large.json --json"),
    Case("a comparison of runs", "compare logs/lm-eval-small logs/lm-eval-large --json"),
    Case("agreement on an export", "agreement logs/potato.jsonl --json"),
]  # fmt: skip

AT_SERVER = "--no-cache -o base_url=SERVER -o model=some-model -o concurrency=1"
SERVERS = [
    score("llm judge at a server", "odd.jsonl", "llm-judge", "", AT_SERVER),
    score("parts of an llm judge", "few.jsonl", "llm-judge", "",
          f"{AT_SERVER} --parts parts.jsonl"),
    *each("llm judge at a server", "letters.jsonl", "llm-judge.coherence llm-judge.overall",
          "expectation=samples samples=5 temperature=0.7", "expectation=logprobs",
          "template=polite.toml seed=none max_tokens=none", more=AT_SERVER),
]  # fmt: skip

TECHNIQUES = [
    Case(
        f"texts by {name}",
        f"generate requests.jsonl --technique {name} --max-new-tokens 8 --out {name}.jsonl {more}",
        files=(f"{name}.jsonl",),
    )
    for name, more in {
        "base": "",
        "prompting": "",
        "ctrl-lite": "",
        "cfg": "",
        "contrastive": "",
        "dexperts": "",
        "gedi": "",
        "fudge": "",
        "cat-paw": "-o inner=gedi",
        "discup": "",
        # more gradients let rounding grow until machines draw other tokens
        "pplm": "-o iterations=1",
        "caa": "",
        "iti": "",
        "loreft": "",
        "preadd": "",
        "self-debiasing": "",
        "proxy-tuning": "",
        "genarm": "",
        "air-decoding": "",
        "smc": "-o particles=4",
        "rad": "-o candidates=4 -o metric_options=judges=vader",
        "best-of-n": "-o n=2 -o metric_options=judges=vader",
    }.items()
]
TECHNIQUES += [
    Case(
        f"texts by {name}",
        f"generate keywords.jsonl --technique {name} --max-new-tokens 12 --out {name}.jsonl {more}",
        files=(f"{name}.jsonl",),
    )
    for name, more in {"constrained-beam": "-o beams=4", "cbart": ""}.items()
]
TECHNIQUES += [
    Case(
        f"rewrites by {name}",
        f"generate sources.jsonl --technique {name} --out {name}.jsonl",
        files=(f"{name}.jsonl",),
    )
    for name in ("copy", "rules")
]

CELL = "study/study.study/cells/writer/places/sentiment/seed-1"
STUDY = [
    Case(
        "the example study, from its run to its tables",
        "study run study/study.toml && study report study/study.toml --out study/tables"
        " && study audit study/study.toml --json",
        FLOAT32,
        ("study/tables/numbers.csv", f"{CELL}/groups.jsonl"),
        slow=True,
    ),
    Case("what is wrong with a study file", "study run wrong.toml"),
]

CHEAP = "diversity.distinct-2 diversity.hdd-1"
RATED = [
    score("ctrleval", "ctrleval.jsonl", "ctrleval fluency.infilling-perplexity", "",
          "-o fluency:model=offline/infill-amateur"),
    score("diversity with the published byte pairs", "ctrleval.jsonl", "diversity",
          "tokenizer=gpt2 diversity.distinct-1:floor=2", "--corpus-by none"),
    score("judges", "ctrleval.jsonl", "control.average control.majority", "judges=offline"),
    score("formality", "formality-judgements.jsonl",
          "bleu rouge-l chrf cosine.source bertscore.source style.degenerate wmd.source"),
    score("meteor of formality", "formality-judgements.jsonl", "meteor", "synonyms=none"),
    score("dialogues", "deam.jsonl", "cdm.momentum", f"{INFILLERS} task=dialogue"),
    score("keywords", "commongen-trinity.jsonl", KEYWORDS),
    score("weights of another vocabulary", "ctrleval.jsonl", "ctrleval.coherence", "iwf=published",
          "--model models/pegasus"),
]  # fmt: skip
ALL = "all-formality-judgements.jsonl"
SCORE_FORMALITY = (
    f"score {ALL} -m rouge-l -m chrf.source -m style.degenerate --out f.jsonl --no-cache"
)
QUICKLY = "--json --resamples 200 --permutations 200"
PEOPLE = [
    Case("agreement on formality", f"agreement {ALL} --aspect style --by survey --worst 0 --json"),
    Case("agreement on coherence", "agreement all-ctrleval.jsonl --worst 0 --json"),
    Case(
        "correlation with people on formality",
        f"{SCORE_FORMALITY} && correlate f.jsonl --ratings {ALL} {QUICKLY}",
    ),
    Case(
        "correlation with people of systems",
        f"{SCORE_FORMALITY} && correlate f.jsonl --ratings {ALL} {QUICKLY}"
        " --level system -m rouge-l",
    ),
    *(
        Case(f"table {table} again", f"reproduce {table} --json")
        for table in ("ctrleval.1", "ctrleval.2", "thesis.10", "thesis.11", "cdm.8", "lpf.8a")
    ),
]

UNSCORED = ("comet.references", "comet.source")
"""Metrics without a golden value: they need an environment of their own."""

GROUPS: dict[str, list[Case]] = {
    "overlap": OVERLAP,
    "counts": COUNTS,
    "minilm": [model(case) for case in MINILM],
    "seq2seq": [model(case) for case in SEQ2SEQ],
    "causal": [model(case) for case in CAUSAL],
    "smollm2": [model(case) for case in SMOLLM2],
    "contrast": [model(case) for case in CONTRAST],
    "judges": [model(case) for case in JUDGES],
    "servers": SERVERS,
    "techniques": TECHNIQUES,
    "study": STUDY,
    "commands": COMMANDS,
    "data-scores": [slow(model(case)) for case in RATED],
    "data-people": PEOPLE,
}
