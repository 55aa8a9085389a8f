-- Times are UTC with microseconds, as text that sorts. `seq` is one count over rating_event and
-- journal, so that both together have an order.

CREATE TABLE study (
    id INTEGER PRIMARY KEY,
    digest TEXT NOT NULL,
    document TEXT NOT NULL CHECK (json_valid(document)),
    at TEXT NOT NULL
) STRICT;

CREATE TABLE setting (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE rater (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    slot INTEGER NOT NULL CHECK (slot >= 0),
    preview INTEGER NOT NULL CHECK (preview IN (0, 1)),
    phase TEXT NOT NULL DEFAULT 'welcome' CHECK (phase IN (
        'welcome', 'instructions', 'examples', 'practice', 'rating', 'review', 'done', 'withdrawn'
    )),
    consent TEXT NOT NULL DEFAULT '',
    completion_code TEXT NOT NULL DEFAULT '',
    made_at TEXT NOT NULL,
    first_seen TEXT,
    last_seen TEXT,
    replaced_at TEXT
) STRICT;

CREATE UNIQUE INDEX rater_of_slot ON rater (slot) WHERE preview = 0 AND replaced_at IS NULL;

-- What opens the pages: sha256 of secrets that are themselves kept nowhere.
CREATE TABLE access (
    hash BLOB PRIMARY KEY CHECK (length(hash) = 32),
    kind TEXT NOT NULL CHECK (kind IN ('link', 'session', 'organiser', 'organiser-session')),
    rater INTEGER REFERENCES rater (id),
    made_at TEXT NOT NULL,
    used_at TEXT,
    revoked_at TEXT,
    CHECK ((rater IS NULL) = (kind IN ('organiser', 'organiser-session')))
) STRICT, WITHOUT ROWID;

CREATE INDEX access_of_rater ON access (rater);

-- That something was said; what was said is in event_value, which withdrawal empties.
CREATE TABLE rating_event (
    seq INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    rater INTEGER NOT NULL REFERENCES rater (id),
    study INTEGER NOT NULL REFERENCES study (id),
    kind TEXT NOT NULL CHECK (kind IN ('rating', 'comment', 'problem', 'practice')),
    item TEXT NOT NULL,
    criterion TEXT NOT NULL,
    attempt INTEGER CHECK (attempt >= 1),
    clock INTEGER NOT NULL CHECK (clock >= 1),
    at TEXT NOT NULL,
    CHECK ((attempt IS NOT NULL) = (kind = 'practice')),
    CHECK ((criterion = '') = (kind IN ('comment', 'problem')))
) STRICT;

CREATE INDEX rating_event_current ON rating_event (rater, kind, item, criterion, clock, seq);
CREATE INDEX rating_event_clock ON rating_event (rater, clock);

CREATE TABLE event_value (
    seq INTEGER PRIMARY KEY REFERENCES rating_event (seq),
    value TEXT NOT NULL CHECK (json_valid(value)),
    client_ms INTEGER CHECK (client_ms >= 0)
) STRICT;

-- Everything else that happened: links, phases, consent, exclusions, closing.
CREATE TABLE journal (
    seq INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    slot INTEGER,
    rater INTEGER REFERENCES rater (id),
    detail TEXT NOT NULL
) STRICT;

CREATE INDEX journal_kind ON journal (kind, seq);

CREATE VIEW current_rating AS
SELECT e.seq, e.rater, e.kind, e.item, e.criterion, e.clock, e.at, v.value, v.client_ms
FROM rating_event AS e
JOIN event_value AS v USING (seq)
WHERE e.kind <> 'practice' AND NOT EXISTS (
    SELECT 1 FROM rating_event AS later
    WHERE later.rater = e.rater AND later.kind = e.kind
        AND later.item = e.item AND later.criterion = e.criterion
        AND (later.clock, later.seq) > (e.clock, e.seq)
);

CREATE TRIGGER rating_event_is_not_changed BEFORE UPDATE ON rating_event
BEGIN SELECT RAISE (ABORT, 'rating_event is append-only'); END;

CREATE TRIGGER rating_event_is_not_deleted BEFORE DELETE ON rating_event
BEGIN SELECT RAISE (ABORT, 'rating_event is append-only'); END;

CREATE TRIGGER event_value_is_not_changed BEFORE UPDATE ON event_value
BEGIN SELECT RAISE (ABORT, 'event_value is append-only'); END;

CREATE TRIGGER event_value_is_deleted_by_withdrawal_only BEFORE DELETE ON event_value
WHEN (
    SELECT rater.phase FROM rating_event JOIN rater ON rater.id = rating_event.rater
    WHERE rating_event.seq = OLD.seq
) <> 'withdrawn'
BEGIN SELECT RAISE (ABORT, 'values are deleted only when their rater has withdrawn'); END;

CREATE TRIGGER journal_is_not_changed BEFORE UPDATE ON journal
BEGIN SELECT RAISE (ABORT, 'journal is append-only'); END;

CREATE TRIGGER journal_is_not_deleted BEFORE DELETE ON journal
BEGIN SELECT RAISE (ABORT, 'journal is append-only'); END;

CREATE TRIGGER study_is_not_changed BEFORE UPDATE ON study
BEGIN SELECT RAISE (ABORT, 'study is append-only'); END;

CREATE TRIGGER study_is_not_deleted BEFORE DELETE ON study
BEGIN SELECT RAISE (ABORT, 'study is append-only'); END;

CREATE TRIGGER rater_is_not_deleted BEFORE DELETE ON rater
BEGIN SELECT RAISE (ABORT, 'raters are not deleted'); END;

CREATE TRIGGER withdrawal_is_final BEFORE UPDATE OF phase ON rater
WHEN OLD.phase = 'withdrawn' AND NEW.phase <> 'withdrawn'
BEGIN SELECT RAISE (ABORT, 'withdrawal is final'); END;
