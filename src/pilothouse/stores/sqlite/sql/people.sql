-- name: _row: the columns of Grant, in its order
user, role, workspace, name, granted_by, granted_at

-- name: grant: grant a role, or change it
INSERT INTO people ({_row}) VALUES (:user, :role, :workspace, :name, :by, :at)
ON CONFLICT (user, workspace) DO UPDATE
SET role = :role, name = :name, granted_by = :by, granted_at = :at

-- name: revoke: revoke a role, in one workspace or all
DELETE FROM people WHERE user = :user AND (:workspace IS NULL OR workspace = :workspace) RETURNING {_row}

-- name: of: the grants of a person
SELECT {_row} FROM people WHERE user = :user ORDER BY workspace

-- name: everybody: all grants
SELECT {_row} FROM people ORDER BY user, workspace
