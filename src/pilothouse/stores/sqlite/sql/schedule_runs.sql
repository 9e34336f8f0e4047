-- name: _row: the columns of Run, in its order
schedule_id, slot, state, created_at, why, ended_at, attempts

-- name: add: a slot that came due
INSERT INTO schedule_runs ({_row}) VALUES (:schedule_id, :slot, :state, :created_at, :why, :ended_at, :attempts)

-- name: between: the slots of a schedule in a time
SELECT slot FROM schedule_runs WHERE schedule_id = :schedule_id AND slot BETWEEN :first AND :last

-- name: save: change an unfinished run
UPDATE schedule_runs SET state = :state, why = :why, ended_at = :ended_at, attempts = :attempts
WHERE schedule_id = :schedule_id AND slot = :slot AND ended_at IS NULL

-- name: open: every unfinished run
SELECT {_row} FROM schedule_runs WHERE ended_at IS NULL ORDER BY slot

-- name: open_of: the unfinished runs of a schedule
SELECT {_row} FROM schedule_runs WHERE schedule_id = :schedule_id AND ended_at IS NULL ORDER BY slot

-- name: newest: the latest runs of all schedules
SELECT {_row} FROM schedule_runs ORDER BY slot DESC LIMIT :limit

-- name: newest_of: the latest runs of a schedule
SELECT {_row} FROM schedule_runs WHERE schedule_id = :schedule_id ORDER BY slot DESC LIMIT :limit

-- name: skipped_at: how many slots of a schedule were skipped at this time
SELECT count(*) FROM schedule_runs
WHERE schedule_id = :schedule_id AND state = 'skipped' AND ended_at IS NOT NULL AND created_at = :at

-- name: working: how many of these slots need a place: their script runs, or their message waits or runs
SELECT count(*) FROM json_each(:keys) AS open
LEFT JOIN inbox ON inbox.key = open.value
LEFT JOIN turns ON turns.id = inbox.turn_id
WHERE turns.status IS NULL OR turns.status IN ('queued', 'running')

-- name: prune: forget what ended long ago
DELETE FROM schedule_runs WHERE (schedule_id, slot) IN (
    SELECT schedule_id, slot FROM schedule_runs WHERE ended_at < :before AND ended_at IS NOT NULL
    ORDER BY ended_at LIMIT :limit
)
