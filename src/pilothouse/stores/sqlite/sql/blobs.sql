-- name: put: store bytes; a repeat renews their age
INSERT INTO blobs (hash, media_type, size, created_at, data) VALUES (:hash, :media_type, :size, :at, :data)
ON CONFLICT (hash) DO UPDATE SET created_at = max(created_at, :at)

-- name: get: the bytes, or NULL where they are a file
SELECT data FROM blobs WHERE hash = :hash

-- name: use: record that a row needs these bytes
INSERT OR IGNORE INTO blob_uses (owner, hash) VALUES (:owner, :hash)

-- name: prune: delete unused bytes; return which of them are files
DELETE FROM blobs WHERE hash IN (
    SELECT hash FROM blobs AS old WHERE created_at < :before
      AND NOT EXISTS (SELECT 1 FROM blob_uses WHERE blob_uses.hash = old.hash)
    ORDER BY created_at LIMIT :limit
) RETURNING hash, data IS NULL
