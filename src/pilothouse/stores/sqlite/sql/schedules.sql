-- name: _row: the columns of Schedule, in its order
id, conversation_id, timing, prompt, missed, next_at, paused, overlap, max_age_s, own_session, zone, workspace, by, mode,
created_at, script, approved, trouble

-- name: save: store a schedule or change what is stored
INSERT INTO schedules ({_row})
VALUES (:id, :conversation_id, :timing, :prompt, :missed, :next_at, :paused, :overlap, :max_age_s, :own_session, :zone,
    :workspace, :by, :mode, :created_at, :script, :approved, :trouble)
ON CONFLICT (id) DO UPDATE SET conversation_id = :conversation_id, timing = :timing, prompt = :prompt,
    missed = :missed, next_at = :next_at, paused = :paused, overlap = :overlap, max_age_s = :max_age_s,
    own_session = :own_session, zone = :zone, workspace = :workspace, by = :by, mode = :mode, created_at = :created_at,
    script = :script, approved = :approved, trouble = :trouble

-- name: get: one schedule by its id
SELECT {_row} FROM schedules WHERE id = :id

-- name: remove: forget a schedule
DELETE FROM schedules WHERE id = :id

-- name: oldest: every schedule, oldest first
SELECT {_row} FROM schedules ORDER BY seq

-- name: of: the schedules of a conversation, oldest first
SELECT {_row} FROM schedules WHERE conversation_id = :conversation_id ORDER BY seq

-- name: due: schedules that are due, the earliest first
SELECT {_row} FROM schedules WHERE paused = 0 AND next_at IS NOT NULL AND next_at <= :now ORDER BY next_at, seq
LIMIT :limit

-- name: next_at: when the next slot comes
SELECT min(next_at) FROM schedules WHERE paused = 0 AND next_at IS NOT NULL

-- name: prune: forget single runs that were over long ago and of which no row is kept
DELETE FROM schedules WHERE seq IN (
    SELECT seq FROM schedules INDEXED BY schedules_over
    WHERE next_at IS NULL AND paused = 0 AND created_at < :before AND CAST(timing AS TEXT) LIKE '_"type":"at"%'
      AND NOT EXISTS (SELECT 1 FROM schedule_runs WHERE schedule_runs.schedule_id = schedules.id)
    LIMIT :limit
)
