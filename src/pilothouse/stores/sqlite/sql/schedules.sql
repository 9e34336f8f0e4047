-- name: _row: the columns of Schedule, in its order
id, conversation_id, timing, prompt, missed, next_at, paused

-- name: save: store a schedule or change what is stored
INSERT INTO schedules ({_row}) VALUES (:id, :conversation_id, :timing, :prompt, :missed, :next_at, :paused)
ON CONFLICT (id) DO UPDATE SET conversation_id = :conversation_id, timing = :timing, prompt = :prompt,
    missed = :missed, next_at = :next_at, paused = :paused

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

-- name: next_at: when the next slot comes
SELECT min(next_at) FROM schedules WHERE paused = 0 AND next_at IS NOT NULL
