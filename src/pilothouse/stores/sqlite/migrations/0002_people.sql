-- Who may answer an ask and who has, what the house itself asks, and who was let in.

ALTER TABLE asks ADD COLUMN authority BLOB;
ALTER TABLE asks ADD COLUMN votes BLOB;
ALTER TABLE asks ADD COLUMN shown_in BLOB;
ALTER TABLE asks ADD COLUMN topic TEXT NOT NULL DEFAULT '';
ALTER TABLE asks ADD COLUMN about TEXT;
ALTER TABLE asks ADD COLUMN kind TEXT NOT NULL DEFAULT 'approval';
UPDATE asks SET kind = coalesce(json_extract(CAST(ask AS TEXT), '$.kind'), 'approval');
CREATE INDEX asks_questions ON asks (conversation_id, seq) WHERE state = 'open' AND kind = 'question';
CREATE INDEX asks_topic ON asks (topic, seq) WHERE state = 'open' AND topic <> '';
CREATE INDEX asks_open_newest ON asks (seq) WHERE state = 'open';

-- An empty workspace is everywhere.
CREATE TABLE people (
    user TEXT NOT NULL,
    workspace TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('member', 'admin', 'owner')),
    name TEXT NOT NULL,
    granted_by TEXT NOT NULL,
    granted_at REAL NOT NULL,
    PRIMARY KEY (user, workspace)
) STRICT, WITHOUT ROWID;

-- How often something happened since the first time of its window: what strangers do must cost little.
CREATE TABLE tallies (
    key TEXT PRIMARY KEY,
    count INTEGER NOT NULL,
    since REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tallies_since ON tallies (since);
