-- Schedules with a session, a script and limits of their own; and one row for every slot that came due.
ALTER TABLE schedules ADD COLUMN overlap TEXT NOT NULL DEFAULT 'skip';
ALTER TABLE schedules ADD COLUMN max_age_s REAL NOT NULL DEFAULT 86400.0;
ALTER TABLE schedules ADD COLUMN own_session INTEGER NOT NULL DEFAULT 1;
ALTER TABLE schedules ADD COLUMN zone TEXT NOT NULL DEFAULT 'UTC';
ALTER TABLE schedules ADD COLUMN workspace TEXT NOT NULL DEFAULT '';
ALTER TABLE schedules ADD COLUMN by TEXT NOT NULL DEFAULT '';
ALTER TABLE schedules ADD COLUMN mode TEXT;
ALTER TABLE schedules ADD COLUMN created_at REAL NOT NULL DEFAULT 0.0;
ALTER TABLE schedules ADD COLUMN script TEXT NOT NULL DEFAULT '';
ALTER TABLE schedules ADD COLUMN approved TEXT NOT NULL DEFAULT '';
ALTER TABLE schedules ADD COLUMN trouble TEXT NOT NULL DEFAULT '';

CREATE TABLE schedule_runs (
    schedule_id TEXT NOT NULL,
    slot REAL NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('script', 'waiting', 'ran', 'skipped', 'failed')),
    created_at REAL NOT NULL,
    why TEXT NOT NULL,
    ended_at REAL,
    attempts INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, slot),
    CHECK ((ended_at IS NULL) = (state IN ('script', 'waiting')))
) STRICT, WITHOUT ROWID;
CREATE INDEX schedule_runs_open ON schedule_runs (schedule_id, slot) WHERE ended_at IS NULL;
CREATE INDEX schedule_runs_ended ON schedule_runs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX schedule_runs_slot ON schedule_runs (slot);
CREATE INDEX schedules_over ON schedules (created_at) WHERE next_at IS NULL AND paused = 0;
