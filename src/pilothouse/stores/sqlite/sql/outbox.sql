-- name: deliverable: the first unfinished row of each conversation that a node serves, skipping postponed changes, if it is ready
WITH waiting (conversation_id) AS (SELECT DISTINCT conversation_id FROM outbox WHERE ended_at IS NULL)
SELECT {_head} FROM waiting
CROSS JOIN outbox AS head ON head.seq = (
    SELECT seq FROM outbox
    WHERE conversation_id = waiting.conversation_id AND ended_at IS NULL
      AND NOT (status = 'queued' AND ready_at > :now AND kind IN (SELECT value FROM json_each(:changes)))
    ORDER BY seq LIMIT 1
)
CROSS JOIN conversations AS place ON place.id = waiting.conversation_id
WHERE head.status = 'queued' AND head.ready_at <= :now
  AND (place.channel IN (SELECT value FROM json_each(:channels))
       OR place.id IN (SELECT value FROM json_each(:conversations))
       OR substr(place.id, 1, nullif(instr(place.id, '#'), 0) - 1) IN (SELECT value FROM json_each(:conversations)))
  AND place.id NOT IN (SELECT value FROM json_each(:skip))
ORDER BY head.seq LIMIT :limit

-- name: of_no_turn: unfinished rows of a conversation without a turn, except keys with a prefix
SELECT {_head} FROM outbox AS head
WHERE head.conversation_id = :conversation_id AND head.ended_at IS NULL AND head.turn_id IS NULL
  AND substr(head.key, 1, length(:but)) <> :but
ORDER BY head.seq LIMIT :limit

-- name: channels_waiting: channels for which anything is unfinished
SELECT DISTINCT place.channel FROM outbox
CROSS JOIN conversations AS place ON place.id = outbox.conversation_id
WHERE outbox.ended_at IS NULL

-- name: _head: the columns of QueueRow, in its order, of the head
head.seq, head.id, head.key, head.lane, head.conversation_id, head.kind, head.body, head.status, head.ready_at,
head.attempts, head.created_at, head.turn_id, head.epoch, head.why, head.ended_at

-- name: _part: the columns of PartRow, in its order
number, part, state, sends, ref

-- name: add_part: store one part
INSERT INTO outbox_parts (outbox_seq, number, part, state, sends)
SELECT seq, :number, :part, 'pending', 0 FROM outbox WHERE id = :id

-- name: parts: the parts of a message
SELECT {_part} FROM outbox_parts WHERE outbox_seq = (SELECT seq FROM outbox WHERE id = :id) ORDER BY number

-- name: drop_parts: delete the parts of a message from a number on
DELETE FROM outbox_parts WHERE outbox_seq = (SELECT seq FROM outbox WHERE id = :id) AND number >= :number

-- name: part: one part of a message
SELECT {_part} FROM outbox_parts
WHERE outbox_seq = (SELECT seq FROM outbox WHERE id = :id) AND number = :number

-- name: move_part: change the state of a part
UPDATE outbox_parts SET state = :state, sends = :sends, ref = :ref
WHERE outbox_seq = (SELECT seq FROM outbox WHERE id = :id) AND number = :number
RETURNING {_part}

-- name: find_ref: the row that was sent as this platform message
SELECT {_head} FROM outbox_parts AS part CROSS JOIN outbox AS head ON head.seq = part.outbox_seq
WHERE part.ref = :ref AND part.ref IS NOT NULL ORDER BY head.seq DESC LIMIT 1
