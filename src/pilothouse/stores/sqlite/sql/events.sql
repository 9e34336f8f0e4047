-- name: give: allocate the next numbers of a conversation; returns the last
INSERT INTO event_sequences (conversation_id, last) VALUES (:conversation_id, :count)
ON CONFLICT (conversation_id) DO UPDATE SET last = last + :count
RETURNING last

-- name: add: append one event
INSERT INTO events (conversation_id, seq, turn_id, turn_seq, at, schema, body)
VALUES (:conversation_id, :seq, :turn_id, :turn_seq, :at, :schema, :body)

-- name: last_of_turn: how many events a turn has
SELECT ifnull(max(turn_seq), 0) FROM events WHERE turn_id = :turn_id

-- name: after: events of a conversation after a number
SELECT seq, turn_id, at, body, schema FROM events WHERE conversation_id = :conversation_id AND seq > :seq
ORDER BY seq LIMIT :limit

-- name: last_seq: the last number given out
SELECT last FROM event_sequences WHERE conversation_id = :conversation_id

-- name: of_turn: events of a turn
SELECT seq, turn_id, at, body, schema FROM events WHERE turn_id = :turn_id ORDER BY turn_seq LIMIT :limit
