-- name: _row: the columns of Entry
session_id, conversation_id, workspace, turn_id, at, role, who, text

-- name: due: turns with entries to come
SELECT turn_id, stored FROM untranscribed WHERE ready = 1 ORDER BY seq LIMIT :limit

-- name: request: make a turn due
INSERT INTO untranscribed (turn_id) VALUES (:turn_id) ON CONFLICT (turn_id) DO UPDATE SET ready = 1

-- name: add: store one entry
INSERT INTO transcript_entries ({_row}, spaced)
VALUES (:session_id, :conversation_id, :workspace, :turn_id, :at, :role, :who, :text, :spaced)

-- name: note: count the stored entries of a turn that goes on
UPDATE untranscribed SET stored = stored + :count, ready = 0 WHERE turn_id = :turn_id

-- name: complete: a turn has all its entries
DELETE FROM untranscribed WHERE turn_id = :turn_id

-- name: entries: the newest entries of a session, oldest first
SELECT {_row} FROM (SELECT * FROM transcript_entries WHERE session_id = :session_id ORDER BY seq DESC LIMIT :limit)
ORDER BY seq

-- name: get: the transcript of a session
SELECT session_id, workspace, name, used_at, markdown_bytes, lines_bytes FROM transcripts WHERE session_id = :session_id

-- name: save: store or replace a transcript
INSERT OR REPLACE INTO transcripts (session_id, workspace, name, used_at, markdown_bytes, lines_bytes)
VALUES (:session_id, :workspace, :name, :used_at, :markdown_bytes, :lines_bytes)

-- name: search: entries with these words, newest first
SELECT session_id, found.conversation_id, found.workspace, turn_id, at, role, who,
       snippet(transcript_words, 0, '', '', '…', 16), snippet(transcript_words, 1, '', '', '…', 40)
FROM transcript_words CROSS JOIN transcript_entries AS found ON found.seq = transcript_words.rowid
WHERE transcript_words MATCH :query
  AND (:place IS NULL OR found.conversation_id = :place
       OR substr(found.conversation_id, 1, length(:tasks)) = :tasks
       OR (:shared_in <> '' AND found.workspace = :shared_in AND EXISTS (
           SELECT 1 FROM conversations WHERE id = found.conversation_id AND private = 0)))
ORDER BY transcript_words.rowid DESC LIMIT :limit

-- name: unused_since: transcripts that are past their time
SELECT session_id, workspace, name, used_at, markdown_bytes, lines_bytes FROM transcripts
WHERE used_at < :before ORDER BY used_at LIMIT :limit

-- name: prune: delete some entries of a session
DELETE FROM transcript_entries WHERE seq IN (
    SELECT seq FROM transcript_entries WHERE session_id = :session_id ORDER BY seq LIMIT :limit
)

-- name: remove: delete the transcript of a session without entries
DELETE FROM transcripts WHERE session_id = :session_id
  AND NOT EXISTS (SELECT 1 FROM transcript_entries AS left WHERE left.session_id = :session_id)
