-- name: _row: the columns of RuleRow, in its order
id, workspace, mark, rule, by, created_at, session_id

-- name: add: store a rule unless it is known
INSERT INTO rules ({_row}) VALUES (:id, :workspace, :mark, :rule, :by, :created_at, :session_id)
ON CONFLICT (workspace, ifnull(session_id, ''), rule, mark) DO NOTHING

-- name: get: one rule by its id
SELECT {_row} FROM rules WHERE id = :id

-- name: remove: forget a rule
DELETE FROM rules WHERE id = :id

-- name: of: rules of a folder and a session, oldest first
SELECT {_row} FROM rules
WHERE workspace IN (:workspace, '') AND (session_id IS NULL OR session_id = :session_id) ORDER BY seq

-- name: oldest: every rule, oldest first
SELECT {_row} FROM rules ORDER BY seq

-- name: prune: delete rules of sessions that are over
DELETE FROM rules WHERE seq IN (
    SELECT kept.seq FROM rules AS kept LEFT JOIN sessions ON sessions.id = kept.session_id
    WHERE kept.session_id IS NOT NULL AND kept.created_at < :before
      AND (sessions.id IS NULL OR sessions.retired OR sessions.used_at < :before)
    LIMIT :limit
)
