-- Transcripts outlive the turns that they are of. The full-text index holds no text of its own.
CREATE TABLE transcripts (
    session_id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    used_at REAL NOT NULL,
    markdown_bytes INTEGER NOT NULL,
    lines_bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX transcripts_used ON transcripts (used_at);

CREATE TABLE transcript_entries (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    workspace TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    at REAL NOT NULL,
    role TEXT NOT NULL,
    who TEXT NOT NULL,
    text TEXT NOT NULL,
    place_token TEXT GENERATED ALWAYS AS (hex(conversation_id)) VIRTUAL, -- one word for the index, which splits at ":" and "/"
    folder_token TEXT GENERATED ALWAYS AS (hex(workspace)) VIRTUAL
) STRICT;
CREATE INDEX transcript_entries_session ON transcript_entries (session_id, seq);

CREATE VIRTUAL TABLE transcript_words USING fts5 (
    text, place_token, folder_token, content = 'transcript_entries', content_rowid = 'seq',
    tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER transcript_entries_are_found AFTER INSERT ON transcript_entries
BEGIN
    INSERT INTO transcript_words (rowid, text, place_token, folder_token)
    VALUES (NEW.seq, NEW.text, NEW.place_token, NEW.folder_token);
END;
CREATE TRIGGER transcript_entries_are_forgotten AFTER DELETE ON transcript_entries
BEGIN
    INSERT INTO transcript_words (transcript_words, rowid, text, place_token, folder_token)
    VALUES ('delete', OLD.seq, OLD.text, OLD.place_token, OLD.folder_token);
END;
CREATE TRIGGER transcript_entries_never_change BEFORE UPDATE ON transcript_entries
BEGIN SELECT RAISE(ABORT, 'an entry of a transcript never changes'); END;

-- Turns with entries to come: those that ended, and live ones that were requested.
CREATE TABLE untranscribed (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    turn_id TEXT NOT NULL UNIQUE,
    stored INTEGER NOT NULL DEFAULT 0,
    ready INTEGER NOT NULL DEFAULT 1
) STRICT;
CREATE TRIGGER turns_end_to_be_transcribed AFTER UPDATE OF status ON turns
WHEN NEW.status IN ('done', 'failed', 'cancelled')
BEGIN INSERT INTO untranscribed (turn_id) VALUES (NEW.id) ON CONFLICT (turn_id) DO UPDATE SET ready = 1; END;
CREATE TRIGGER turns_drop_untranscribed AFTER DELETE ON turns
BEGIN DELETE FROM untranscribed WHERE turn_id = OLD.id; END;
INSERT INTO untranscribed (turn_id) SELECT id FROM turns WHERE status IN ('done', 'failed', 'cancelled') ORDER BY seq;
