-- name: _row: the columns of AskRow, in its order; expires_at is the ask's, and may have been shifted
ask, expires_at, conversation_id, session_id, turn_id, engine_key, state, asked_at, decision, answered_at, used,
authority, votes, shown_in, topic, about, call

-- name: add: store a new ask
INSERT INTO asks (id, conversation_id, session_id, turn_id, engine_key, state, asked_at, expires_at, payload_hash,
                  ask, decision, answered_at, ended_at, used, authority, votes, shown_in, topic, about, kind, call)
VALUES (:id, :conversation_id, :session_id, :turn_id, :engine_key, :state, :asked_at, :expires_at, :payload_hash,
        :ask, :decision, :answered_at, :ended_at, :used, :authority, :votes, :shown_in, :topic, :about, :kind, :call)

-- name: get: one ask by its id
SELECT {_row} FROM asks WHERE id = :id

-- name: find: asks whose id lies in a range, the open ones first, then the newest
SELECT {_row} FROM asks WHERE id >= :first AND id < :last ORDER BY state = 'open' DESC, seq DESC LIMIT 20

-- name: move: change the state of an ask
UPDATE asks SET state = :state, decision = :decision, answered_at = :answered_at, ended_at = :at WHERE id = :id
RETURNING {_row}

-- name: vote: store the yes votes so far
UPDATE asks SET votes = :votes WHERE id = :id AND state = 'open'

-- name: show_in: store where else it is shown
UPDATE asks SET shown_in = :shown_in WHERE id = :id AND state = 'open'
RETURNING {_row}

-- name: amend: add a reason to a decision
UPDATE asks SET decision = :decision WHERE id = :id AND state = 'answered'
RETURNING {_row}

-- name: mark_used: its decision reached an engine, in this turn or the asking one
UPDATE asks SET used = 1, turn_id = coalesce(:turn_id, turn_id) WHERE id = :id

-- name: mark_unused: the engine that the decision had reached is gone
UPDATE asks SET used = 0 WHERE id = :id

-- name: open_in: open asks of a conversation
SELECT {_row} FROM asks WHERE conversation_id = :conversation_id AND state = 'open' ORDER BY seq

-- name: open_at: open asks that a place shows
SELECT id, authority FROM (
  SELECT * FROM (
    SELECT id, authority, seq FROM asks INDEXED BY asks_open
    WHERE state = 'open' AND conversation_id = :place AND (expires_at IS NULL OR expires_at > :now)
    ORDER BY seq LIMIT 20
  )
  UNION ALL
  SELECT id, authority, seq FROM asks INDEXED BY asks_shown
  WHERE state = 'open' AND shown_in IS NOT NULL AND conversation_id <> :place
    AND (expires_at IS NULL OR expires_at > :now)
    AND EXISTS (SELECT 1 FROM json_each(shown_in) WHERE value = :place)
)
ORDER BY seq LIMIT 20

-- name: open_questions: open questions that a plain reply in a conversation may answer
SELECT id, authority FROM asks INDEXED BY asks_questions
WHERE conversation_id = :conversation_id AND state = 'open' AND kind = 'question'
  AND (expires_at IS NULL OR expires_at > :now) AND (:session_id IS NULL OR session_id = :session_id)
ORDER BY seq LIMIT 20

-- name: open_of: open asks of a session
SELECT {_row} FROM asks WHERE session_id = :session_id AND state = 'open' ORDER BY seq

-- name: open_about: open asks of the gateway itself, by topic
SELECT {_row} FROM asks INDEXED BY asks_topic
WHERE topic = :topic AND topic <> '' AND state = 'open' ORDER BY seq LIMIT :limit

-- name: newest_open: all open asks, newest first
SELECT {_row} FROM asks INDEXED BY asks_open_newest WHERE state = 'open' ORDER BY seq DESC LIMIT :limit

-- name: newest: asks of certain states, newest first
SELECT {_row} FROM asks WHERE state IN (SELECT value FROM json_each(:states)) ORDER BY seq DESC LIMIT :limit

-- name: of_turn: asks of a turn
SELECT {_row} FROM asks WHERE turn_id = :turn_id ORDER BY seq

-- name: unused_of: the answers of a session that never reached an engine
SELECT {_row} FROM asks INDEXED BY asks_unused
WHERE session_id = :session_id AND state = 'answered' AND used = 0 ORDER BY seq

-- name: unused_answer: an answer that never reached an engine
SELECT {_row} FROM asks
WHERE session_id = :session_id AND payload_hash = :payload_hash AND state = 'answered' AND used = 0
ORDER BY seq LIMIT 1

-- name: expired: open asks that have expired
SELECT {_row} FROM asks WHERE state = 'open' AND expires_at IS NOT NULL AND expires_at <= :now
ORDER BY expires_at, seq LIMIT :limit

-- name: next_expiry: when the next open ask expires
SELECT min(expires_at) FROM asks WHERE state = 'open' AND expires_at IS NOT NULL

-- name: shift: move the expiry of open asks with the wall clock
UPDATE asks SET expires_at = expires_at + :seconds
WHERE state = 'open' AND expires_at IS NOT NULL AND expires_at > :after

-- name: prune: delete asks that ended long ago
DELETE FROM asks WHERE seq IN (
    SELECT seq FROM asks WHERE ended_at IS NOT NULL AND ended_at < :before ORDER BY ended_at LIMIT :limit
)
