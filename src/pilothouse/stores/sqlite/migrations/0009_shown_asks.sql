-- Open asks that another conversation shows are few: a message looks for one of them.
CREATE INDEX asks_shown ON asks (seq) WHERE state = 'open' AND shown_in IS NOT NULL;
