-- The first schema. What must never break is an index, a check or a trigger here, so that no code can break it.
-- Times are UTC epoch seconds; order is by `seq`. Whatever is polled has an index over unfinished rows alone, so
-- that a long history costs nothing.

CREATE TABLE conversations (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    channel TEXT NOT NULL,
    place TEXT NOT NULL,
    thread TEXT,
    created_at REAL NOT NULL,
    private INTEGER NOT NULL,
    workspace TEXT,
    engine TEXT,
    model TEXT,
    busy TEXT,
    session_id TEXT
) STRICT;

CREATE TABLE sessions (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    conversation_id TEXT NOT NULL,
    engine TEXT NOT NULL,
    workspace TEXT NOT NULL,
    created_at REAL NOT NULL,
    used_at REAL NOT NULL,
    model TEXT,
    resume_engine TEXT,
    resume_value TEXT,
    resume_cwd TEXT,
    retired INTEGER NOT NULL,
    failed_resumes INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    cost_usd REAL NOT NULL
) STRICT;
CREATE INDEX sessions_conversation ON sessions (conversation_id, seq);
CREATE INDEX sessions_resume ON sessions (resume_value, resume_engine) WHERE resume_value IS NOT NULL;

CREATE TABLE inbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL UNIQUE,
    lane TEXT NOT NULL,
    conversation_id TEXT NOT NULL REFERENCES conversations (id),
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('queued', 'claimed', 'done', 'failed', 'withdrawn')),
    ready_at REAL NOT NULL,
    attempts INTEGER NOT NULL,
    created_at REAL NOT NULL,
    turn_id TEXT,
    put_turn_id TEXT,
    epoch INTEGER,
    why TEXT NOT NULL,
    ended_at REAL,
    CHECK ((ended_at IS NULL) = (status IN ('queued', 'claimed'))),
    CHECK (status <> 'claimed' OR epoch IS NOT NULL)
) STRICT;
CREATE INDEX inbox_lane ON inbox (lane, seq) WHERE ended_at IS NULL;
CREATE INDEX inbox_conversation ON inbox (conversation_id, seq) WHERE ended_at IS NULL;
CREATE INDEX inbox_work ON inbox (conversation_id, ready_at, seq) WHERE status = 'queued' AND lane <> 'control';
CREATE INDEX inbox_ready ON inbox (ready_at) WHERE status = 'queued';
CREATE INDEX inbox_claimed ON inbox (epoch, lane, conversation_id) WHERE status = 'claimed';
CREATE INDEX inbox_turn ON inbox (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX inbox_ended ON inbox (ended_at) WHERE ended_at IS NOT NULL;
CREATE TRIGGER inbox_keeps_unfinished BEFORE DELETE ON inbox WHEN OLD.ended_at IS NULL
BEGIN SELECT RAISE(ABORT, 'an unfinished inbox row is never deleted'); END;

CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL UNIQUE,
    lane TEXT NOT NULL,
    conversation_id TEXT NOT NULL REFERENCES conversations (id),
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('queued', 'claimed', 'done', 'failed', 'withdrawn')),
    ready_at REAL NOT NULL,
    attempts INTEGER NOT NULL,
    created_at REAL NOT NULL,
    turn_id TEXT,
    put_turn_id TEXT,
    epoch INTEGER,
    why TEXT NOT NULL,
    ended_at REAL,
    CHECK ((ended_at IS NULL) = (status IN ('queued', 'claimed'))),
    CHECK (status <> 'claimed' OR epoch IS NOT NULL)
) STRICT;
CREATE INDEX outbox_lane ON outbox (lane, seq) WHERE ended_at IS NULL;
CREATE INDEX outbox_conversation ON outbox (conversation_id, seq) WHERE ended_at IS NULL;
CREATE INDEX outbox_ready ON outbox (ready_at) WHERE status = 'queued';
CREATE INDEX outbox_claimed ON outbox (epoch, lane, conversation_id) WHERE status = 'claimed';
CREATE INDEX outbox_turn ON outbox (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX outbox_ended ON outbox (ended_at) WHERE ended_at IS NOT NULL;
CREATE TRIGGER outbox_keeps_unfinished BEFORE DELETE ON outbox WHEN OLD.ended_at IS NULL
BEGIN SELECT RAISE(ABORT, 'an unfinished outbox row is never deleted'); END;

-- By the outbox row's number, not by its id: new parts then always go to the end of the index.
CREATE TABLE outbox_parts (
    outbox_seq INTEGER NOT NULL REFERENCES outbox (seq) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    part BLOB NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'sending', 'sent')),
    sends INTEGER NOT NULL,
    ref BLOB
) STRICT;
CREATE UNIQUE INDEX outbox_parts_number ON outbox_parts (outbox_seq, number);
CREATE INDEX outbox_parts_ref ON outbox_parts (ref) WHERE ref IS NOT NULL;

CREATE TABLE turns (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    engine TEXT NOT NULL,
    status TEXT NOT NULL
        CHECK (status IN ('queued', 'running', 'waiting', 'parked', 'lost', 'done', 'failed', 'cancelled')),
    cause TEXT NOT NULL,
    prompt BLOB NOT NULL,
    created_at REAL NOT NULL,
    attempts INTEGER NOT NULL,
    began INTEGER NOT NULL,
    stop_requested INTEGER NOT NULL,
    epoch INTEGER,
    retry_at REAL,
    started_at REAL,
    ended_at REAL,
    answer TEXT NOT NULL,
    failure BLOB,
    usage BLOB,
    CHECK (status NOT IN ('running', 'waiting') OR epoch IS NOT NULL)
) STRICT;
-- Law 2: one turn at a time per session.
CREATE UNIQUE INDEX turns_one_live ON turns (session_id) WHERE status IN ('running', 'waiting');
CREATE INDEX turns_live ON turns (conversation_id) WHERE status IN ('running', 'waiting');
CREATE INDEX turns_held ON turns (epoch) WHERE status IN ('running', 'waiting');
CREATE INDEX turns_queued ON turns (seq) WHERE status = 'queued';
CREATE INDEX turns_parked ON turns (ifnull(retry_at, 0.0)) WHERE status = 'parked';
CREATE INDEX turns_conversation ON turns (conversation_id, seq);
CREATE INDEX turns_unended ON turns (conversation_id, seq) WHERE status NOT IN ('done', 'failed', 'cancelled');
CREATE INDEX turns_ended ON turns (ifnull(ended_at, created_at)) WHERE status IN ('done', 'failed', 'cancelled');
CREATE TRIGGER turns_keep_unended BEFORE DELETE ON turns WHEN OLD.status NOT IN ('done', 'failed', 'cancelled')
BEGIN SELECT RAISE(ABORT, 'a turn that has not ended is never deleted'); END;

CREATE TABLE events (
    conversation_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    turn_id TEXT NOT NULL,
    turn_seq INTEGER NOT NULL,
    at REAL NOT NULL,
    schema INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_sequence ON events (conversation_id, seq);
CREATE UNIQUE INDEX events_turn ON events (turn_id, turn_seq);

-- The last number given out per conversation: it outlives pruned events, so that none is given twice.
CREATE TABLE event_sequences (
    conversation_id TEXT PRIMARY KEY,
    last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Turns that were pruned but whose events are still being deleted, a bounded step at a time.
CREATE TABLE pruning (turn_id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TRIGGER events_never_change BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;
CREATE TRIGGER events_go_with_their_turn BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM pruning WHERE turn_id = OLD.turn_id)
BEGIN SELECT RAISE(ABORT, 'the event log is append-only'); END;

CREATE TABLE asks (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    conversation_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    engine_key TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'expired', 'withdrawn', 'superseded')),
    asked_at REAL NOT NULL,
    expires_at REAL,
    payload_hash TEXT NOT NULL,
    ask BLOB NOT NULL,
    decision BLOB,
    answered_at REAL,
    ended_at REAL,
    used INTEGER NOT NULL
) STRICT;
CREATE INDEX asks_open ON asks (conversation_id, seq) WHERE state = 'open';
CREATE INDEX asks_alike ON asks (session_id, payload_hash) WHERE state = 'open';
CREATE INDEX asks_expiry ON asks (expires_at) WHERE state = 'open' AND expires_at IS NOT NULL;
CREATE INDEX asks_unused ON asks (session_id, payload_hash) WHERE state = 'answered' AND used = 0;
CREATE INDEX asks_turn ON asks (turn_id);
CREATE INDEX asks_ended ON asks (ended_at) WHERE ended_at IS NOT NULL;
CREATE TRIGGER asks_keep_open BEFORE DELETE ON asks WHEN OLD.state = 'open'
BEGIN SELECT RAISE(ABORT, 'an open ask is never deleted'); END;

CREATE TABLE schedules (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    conversation_id TEXT NOT NULL,
    timing BLOB NOT NULL,
    prompt TEXT NOT NULL,
    missed TEXT NOT NULL,
    next_at REAL,
    paused INTEGER NOT NULL
) STRICT;
CREATE INDEX schedules_due ON schedules (next_at) WHERE paused = 0 AND next_at IS NOT NULL;
CREATE INDEX schedules_conversation ON schedules (conversation_id, seq);

-- `data` is NULL where the bytes are a file beside the database.
CREATE TABLE blobs (
    hash TEXT PRIMARY KEY,
    media_type TEXT NOT NULL,
    size INTEGER NOT NULL,
    created_at REAL NOT NULL,
    data BLOB
) STRICT;
CREATE INDEX blobs_created ON blobs (created_at);

CREATE TABLE blob_uses (
    owner TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (owner, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_uses_hash ON blob_uses (hash);
CREATE TRIGGER inbox_drops_blobs AFTER DELETE ON inbox
BEGIN DELETE FROM blob_uses WHERE owner = 'inbox ' || OLD.id; END;
CREATE TRIGGER outbox_drops_blobs AFTER DELETE ON outbox
BEGIN DELETE FROM blob_uses WHERE owner = 'outbox ' || OLD.id; END;
CREATE TRIGGER turns_drop_blobs AFTER DELETE ON turns
BEGIN DELETE FROM blob_uses WHERE owner = 'turn ' || OLD.id; END;

CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    who TEXT NOT NULL,
    what TEXT NOT NULL,
    detail TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT;
CREATE TRIGGER audit_never_changes BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_never_shrinks BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

-- AUTOINCREMENT: an epoch is never given twice, not even after its row was pruned.
CREATE TABLE nodes (
    epoch INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    engines INTEGER NOT NULL,
    channels INTEGER NOT NULL,
    scheduler INTEGER NOT NULL,
    lease_until REAL NOT NULL,
    beats INTEGER NOT NULL,
    fenced INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX nodes_one_engines ON nodes (engines) WHERE engines = 1 AND fenced = 0;
CREATE INDEX nodes_alive ON nodes (epoch) WHERE fenced = 0;
CREATE INDEX nodes_fenced ON nodes (lease_until) WHERE fenced = 1;

CREATE TABLE facts (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
