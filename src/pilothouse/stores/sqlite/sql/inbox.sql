-- name: startable: conversations with ready work, none of it claimed, no turn that waits, no live turn in their session and no open ask of a lost one
WITH work (conversation_id, seq) AS (
    SELECT conversation_id, min(seq) FROM inbox
    WHERE status = 'queued' AND lane <> 'control' AND ready_at <= :now GROUP BY conversation_id
)
SELECT work.conversation_id FROM work
CROSS JOIN conversations AS place ON place.id = work.conversation_id
LEFT JOIN sessions ON sessions.id = place.session_id AND sessions.retired = 0
WHERE work.conversation_id NOT IN (SELECT conversation_id FROM inbox WHERE status = 'claimed' AND lane <> 'control')
  AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.session_id = place.session_id AND status IN ('running', 'waiting'))
  AND NOT EXISTS (
    SELECT 1 FROM turns INDEXED BY turns_unended
    WHERE turns.conversation_id = work.conversation_id AND status NOT IN ('done', 'failed', 'cancelled')
      AND status IN ('queued', 'parked')
  )
  AND NOT EXISTS ( -- an open ask whose turn was lost goes first
    SELECT 1 FROM asks INDEXED BY asks_alike CROSS JOIN turns AS lost ON lost.id = asks.turn_id
    WHERE asks.session_id = sessions.id AND asks.state = 'open' AND lost.ended_at IS NOT NULL
  )
  AND (:engines IS NULL OR coalesce(sessions.engine, place.engine) IS NULL
       OR coalesce(sessions.engine, place.engine) IN (SELECT value FROM json_each(:engines)))
ORDER BY work.seq LIMIT :limit
