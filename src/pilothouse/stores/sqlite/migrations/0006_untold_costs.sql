-- What a session cost is not known until one of its turns tells: that is NULL, and not 0.
ALTER TABLE sessions ADD COLUMN told_usd REAL;
UPDATE sessions SET told_usd = cost_usd WHERE cost_usd > 0 OR id IN (
    SELECT session_id FROM turns WHERE CASE WHEN json_valid(CAST(usage AS TEXT))
        THEN json_extract(CAST(usage AS TEXT), '$.cost_usd') IS NOT NULL END
);
ALTER TABLE sessions DROP COLUMN cost_usd;
ALTER TABLE sessions RENAME COLUMN told_usd TO cost_usd;
