-- name: pick_turns: turns that ended long ago and that nothing unfinished belongs to
INSERT OR IGNORE INTO pruning (turn_id)
SELECT id FROM turns AS old
WHERE status IN ('done', 'failed', 'cancelled') AND ifnull(ended_at, created_at) < :before
  AND NOT EXISTS (SELECT 1 FROM asks WHERE asks.turn_id = old.id AND state = 'open')
  AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.turn_id = old.id AND inbox.ended_at IS NULL)
  AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.turn_id = old.id AND outbox.ended_at IS NULL)
ORDER BY ifnull(ended_at, created_at) LIMIT :limit

-- name: turns: delete the turns that were picked
DELETE FROM turns WHERE id IN (SELECT turn_id FROM pruning)

-- name: events: delete events of the turns that were picked
DELETE FROM events WHERE rowid IN (
    SELECT events.rowid FROM pruning CROSS JOIN events ON events.turn_id = pruning.turn_id LIMIT :limit
)

-- name: finish: forget the picked turns that have no events left
DELETE FROM pruning WHERE NOT EXISTS (SELECT 1 FROM events WHERE events.turn_id = pruning.turn_id)
