-- The audit log's rows were chained from the first schema on. From here on their head is kept apart from them, and no
-- statement can put a row anywhere but at the end: REPLACE would delete one without asking the trigger for deletions.

CREATE TRIGGER audit_only_grows BEFORE INSERT ON audit
WHEN NEW.seq IS NOT (SELECT ifnull(max(seq), 0) + 1 FROM audit)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_keeps_its_head AFTER INSERT ON audit
BEGIN
    INSERT INTO facts (key, value) VALUES ('audit.head', NEW.hash)
    ON CONFLICT (key) DO UPDATE SET value = NEW.hash;
END;
INSERT INTO facts (key, value)
SELECT 'audit.head', hash FROM audit WHERE true ORDER BY seq DESC LIMIT 1;
