-- name: get: one fact
SELECT value FROM facts WHERE key = :key

-- name: set: remember or replace a fact
INSERT INTO facts (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = :value

-- name: of: the facts whose key begins so
SELECT key, value FROM facts WHERE substr(key, 1, length(:prefix)) = :prefix ORDER BY key
