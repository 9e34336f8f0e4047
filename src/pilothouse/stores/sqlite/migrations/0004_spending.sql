-- Where money went, by the day: it outlives the turns, which are pruned. A day is as the configured time zone had it.
CREATE TABLE spending (
    day TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    workspace TEXT NOT NULL,
    engine TEXT NOT NULL,
    cause TEXT NOT NULL,
    turns INTEGER NOT NULL,
    untold INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    assumed_usd REAL NOT NULL,
    PRIMARY KEY (day, conversation_id, workspace, engine, cause)
) STRICT, WITHOUT ROWID;

-- What unended turns may cost, and which of them are held: a turn that has ended has none.
CREATE TABLE reservations (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    turn_id TEXT NOT NULL UNIQUE,
    day TEXT NOT NULL,
    workspace TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    amount_usd REAL NOT NULL CHECK (amount_usd >= 0),
    ask_id TEXT
) STRICT;
CREATE INDEX reservations_held ON reservations (ask_id, seq) WHERE ask_id IS NOT NULL;
CREATE TRIGGER turns_end_without_reservation AFTER UPDATE OF status ON turns
WHEN NEW.status IN ('done', 'failed', 'cancelled')
BEGIN DELETE FROM reservations WHERE turn_id = NEW.id; END;

-- What people decided, and were told, about a cap on one day.
CREATE TABLE cap_days (
    day TEXT NOT NULL,
    scope TEXT NOT NULL,
    raised_usd REAL NOT NULL,
    alerted INTEGER NOT NULL,
    ask_id TEXT,
    PRIMARY KEY (day, scope)
) STRICT, WITHOUT ROWID;
