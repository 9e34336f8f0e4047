-- name: _row: the columns of Turn, in its order
id, session_id, conversation_id, engine, status, cause, prompt, created_at, attempts, began, stop_requested, epoch,
retry_at, started_at, ended_at, answer, failure, usage

-- name: add: store a new turn
INSERT INTO turns ({_row})
VALUES (:id, :session_id, :conversation_id, :engine, :status, :cause, :prompt, :created_at, :attempts, :began,
        :stop_requested, :epoch, :retry_at, :started_at, :ended_at, :answer, :failure, :usage)

-- name: save: change a stored turn
UPDATE turns
SET session_id = :session_id, conversation_id = :conversation_id, engine = :engine, status = :status,
    cause = :cause, prompt = :prompt, created_at = :created_at, attempts = :attempts, began = :began,
    stop_requested = :stop_requested, epoch = :epoch, retry_at = :retry_at, started_at = :started_at,
    ended_at = :ended_at, answer = :answer, failure = :failure, usage = :usage
WHERE id = :id

-- name: get: one turn by its id
SELECT {_row} FROM turns WHERE id = :id

-- name: find: turns whose id lies in a range, newest first
SELECT {_row} FROM turns WHERE id >= :first AND id < :last ORDER BY seq DESC LIMIT 20

-- name: live: the live turn of a session
SELECT {_row} FROM turns WHERE session_id = :session_id AND status IN ('running', 'waiting')

-- name: live_in: the newest live turn of a conversation
SELECT {_row} FROM turns INDEXED BY turns_live
WHERE conversation_id = :conversation_id AND status IN ('running', 'waiting') ORDER BY seq DESC LIMIT 1

-- name: held_by: the live turns of a node
SELECT {_row} FROM turns WHERE epoch = :epoch AND status IN ('running', 'waiting') ORDER BY seq

-- name: newest: turns of every conversation, newest first
SELECT {_row} FROM turns
WHERE :statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses)) ORDER BY seq DESC LIMIT :limit

-- name: of: turns of one conversation, newest first
SELECT {_row} FROM turns WHERE conversation_id = :conversation_id
  AND (:statuses IS NULL OR status IN (SELECT value FROM json_each(:statuses))) ORDER BY seq DESC LIMIT :limit

-- name: first_of: the oldest turn of a session in a conversation
SELECT {_row} FROM turns WHERE conversation_id = :conversation_id AND session_id = :session_id ORDER BY seq LIMIT 1

-- name: newest_unended: turns that have not ended, of every conversation, newest first
SELECT {_row} FROM turns INDEXED BY turns_unended WHERE status NOT IN ('done', 'failed', 'cancelled')
  AND status IN (SELECT value FROM json_each(:statuses)) ORDER BY seq DESC LIMIT :limit

-- name: of_unended: turns that have not ended, of one conversation, newest first
SELECT {_row} FROM turns INDEXED BY turns_unended
WHERE conversation_id = :conversation_id AND status NOT IN ('done', 'failed', 'cancelled')
  AND status IN (SELECT value FROM json_each(:statuses)) ORDER BY seq DESC LIMIT :limit

-- name: startable: queued turns whose session has no live turn
SELECT {_row} FROM turns AS queued WHERE status = 'queued' AND NOT EXISTS (
    SELECT 1 FROM turns AS live WHERE live.session_id = queued.session_id AND live.status IN ('running', 'waiting')
) ORDER BY seq LIMIT :limit

-- name: parked_due: parked turns that are due; without a time, or stopped, they are due at once
SELECT {_row} FROM turns INDEXED BY turns_parked
WHERE status = 'parked' AND (ifnull(retry_at, 0.0) <= :now OR stop_requested) ORDER BY seq

-- name: next_parked_at: when the next parked turn is due
SELECT ifnull(retry_at, 0.0) FROM turns INDEXED BY turns_parked WHERE status = 'parked'
ORDER BY ifnull(retry_at, 0.0) LIMIT 1
