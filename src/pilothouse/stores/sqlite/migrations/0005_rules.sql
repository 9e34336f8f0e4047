-- Rules that people made or chose to remember. One of a session is never another session's.
CREATE TABLE rules (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    workspace TEXT NOT NULL,
    mark TEXT NOT NULL,
    rule TEXT NOT NULL,
    by TEXT NOT NULL,
    created_at REAL NOT NULL,
    session_id TEXT
) STRICT;
CREATE UNIQUE INDEX rules_once ON rules (workspace, ifnull(session_id, ''), rule, mark);
CREATE INDEX rules_session ON rules (session_id) WHERE session_id IS NOT NULL;
