-- Chinese, Japanese and Korean words are found by their characters: the index splits words at spaces only.
-- `spaced` is the text with spaces around such characters; empty for a text without any.
DROP TRIGGER transcript_entries_are_found;
DROP TRIGGER transcript_entries_are_forgotten;
DROP TRIGGER transcript_entries_never_change;
DROP TABLE transcript_words;
ALTER TABLE transcript_entries ADD COLUMN spaced TEXT NOT NULL DEFAULT '';
UPDATE transcript_entries SET spaced = (
    WITH RECURSIVE place (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM place WHERE n < length(text)),
    piece (n, one) AS (SELECT n, substr(text, n, 1) FROM place)
    SELECT group_concat(CASE WHEN one GLOB '[々-〇ぁ-ヿㄅ-ㄯㆠ-ㆿㇰ-ㇿ㐀-䶿一-鿿가-힯豈-﫿ｦ-ﾟ𠀀-𿿿]' THEN ' ' || one || ' ' ELSE one END, '')
    FROM (SELECT one FROM piece ORDER BY n)
)
WHERE text GLOB '*[々-〇ぁ-ヿㄅ-ㄯㆠ-ㆿㇰ-ㇿ㐀-䶿一-鿿가-힯豈-﫿ｦ-ﾟ𠀀-𿿿]*';

CREATE VIRTUAL TABLE transcript_words USING fts5 (
    text, spaced, place_token, folder_token, content = 'transcript_entries', content_rowid = 'seq',
    tokenize = 'porter unicode61 remove_diacritics 2'
);
INSERT INTO transcript_words (transcript_words) VALUES ('rebuild');
CREATE TRIGGER transcript_entries_are_found AFTER INSERT ON transcript_entries
BEGIN
    INSERT INTO transcript_words (rowid, text, spaced, place_token, folder_token)
    VALUES (NEW.seq, NEW.text, NEW.spaced, NEW.place_token, NEW.folder_token);
END;
CREATE TRIGGER transcript_entries_are_forgotten AFTER DELETE ON transcript_entries
BEGIN
    INSERT INTO transcript_words (transcript_words, rowid, text, spaced, place_token, folder_token)
    VALUES ('delete', OLD.seq, OLD.text, OLD.spaced, OLD.place_token, OLD.folder_token);
END;
CREATE TRIGGER transcript_entries_never_change BEFORE UPDATE ON transcript_entries
BEGIN SELECT RAISE(ABORT, 'an entry of a transcript never changes'); END;
