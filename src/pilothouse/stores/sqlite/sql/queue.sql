-- The one shape of inbox and outbox; {queue} is the table.

-- name: _row: the columns of QueueRow, in its order
seq, id, key, lane, conversation_id, kind, body, status, ready_at, attempts, created_at, turn_id, epoch, why, ended_at

-- name: put: store a row; a known key changes nothing
INSERT INTO {queue} (id, key, lane, conversation_id, kind, body, status, ready_at, attempts, created_at, turn_id,
                     put_turn_id, why)
VALUES (:id, :key, :lane, :conversation_id, :kind, :body, 'queued', :ready_at, 0, :at, :turn_id, :turn_id, '')
ON CONFLICT (key) DO NOTHING
RETURNING {_row}

-- name: get: one row by its id
SELECT {_row} FROM {queue} WHERE id = :id

-- name: by_key: one row by its dedupe key
SELECT {_row} FROM {queue} WHERE key = :key

-- name: waiting: the queued rows of a waitlist (column lane) that are ready by a time
SELECT {_row} FROM {queue}
WHERE lane = :lane AND ended_at IS NULL AND status = 'queued' AND ready_at <= :ready_by
ORDER BY seq LIMIT :limit

-- name: unfinished: queued and claimed rows of a conversation
SELECT {_row} FROM {queue} WHERE conversation_id = :conversation_id AND ended_at IS NULL ORDER BY seq LIMIT :limit

-- name: claim: take a queued row for a node
UPDATE {queue}
SET status = 'claimed', epoch = :epoch, attempts = attempts + 1, turn_id = coalesce(:turn_id, turn_id)
WHERE id = :id AND status = 'queued'
RETURNING {_row}

-- name: end: finish a row that this node holds
UPDATE {queue} SET status = :status, ended_at = :at, why = :why
WHERE id = :id AND status = 'claimed' AND epoch = :epoch

-- name: retry: back to the queue, later; the attempt counts
UPDATE {queue} SET status = 'queued', epoch = NULL, ready_at = :ready_at, why = :why
WHERE id = :id AND status = 'claimed' AND epoch = :epoch

-- name: release: back to the queue as if it had not been claimed
UPDATE {queue} SET status = 'queued', epoch = NULL, attempts = attempts - 1, turn_id = put_turn_id
WHERE id = :id AND status = 'claimed' AND epoch = :epoch

-- name: withdraw: end a row that was not claimed
UPDATE {queue} SET status = 'withdrawn', ended_at = :at, why = :why WHERE id = :id AND status = 'queued'

-- name: rewrite: change body and ready time of a row that was not claimed
UPDATE {queue} SET body = :body, ready_at = coalesce(:ready_at, ready_at) WHERE id = :id AND status = 'queued'

-- name: of_turn: the rows that belong to a turn
SELECT {_row} FROM {queue} WHERE turn_id = :turn_id ORDER BY seq

-- name: claimed_by: rows claimed by a node
SELECT seq FROM {queue} WHERE status = 'claimed' AND epoch = :epoch ORDER BY seq

-- name: reap: give a row of a fenced node back to the queue
UPDATE {queue} SET status = 'queued', epoch = NULL WHERE seq = :seq RETURNING {_row}

-- name: next_ready_at: when the next row becomes ready
SELECT min(ready_at) FROM {queue} WHERE status = 'queued' AND ready_at > :now

-- name: shift: move ready times with the wall clock
UPDATE {queue} SET ready_at = ready_at + :seconds WHERE status = 'queued' AND ready_at > :after

-- name: prune: delete rows that ended long ago
DELETE FROM {queue} WHERE seq IN (
    SELECT seq FROM {queue} WHERE ended_at IS NOT NULL AND ended_at < :before ORDER BY ended_at LIMIT :limit
)
