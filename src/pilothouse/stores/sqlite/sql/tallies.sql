-- name: add: count one more, or begin a new window
INSERT INTO tallies (key, count, since) VALUES (:key, 1, :at)
ON CONFLICT (key) DO UPDATE
SET count = CASE WHEN since > :after THEN count + 1 ELSE 1 END, since = CASE WHEN since > :after THEN since ELSE :at END
RETURNING count

-- name: get: how many there are in the window
SELECT count FROM tallies WHERE key = :key AND since > :after

-- name: prune: forget windows that are long over
DELETE FROM tallies WHERE key IN (
    SELECT key FROM tallies INDEXED BY tallies_since WHERE since < :before ORDER BY since LIMIT :limit
)
