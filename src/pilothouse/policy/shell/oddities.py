"""What makes a text no plain command, in a person's words; by the grammar's name for it where it has one."""

from __future__ import annotations

ODD: dict[str, str] = {
    "command_substitution": "it runs a command inside another",
    "process_substitution": "it runs a command inside another",
    "simple_expansion": "it depends on a variable",
    "expansion": "it depends on a variable",
    "arithmetic_expansion": "it computes what it runs",
    "variable_assignment": "it sets a variable",
    "variable_assignments": "it sets variables",
    "declaration_command": "it sets a variable",
    "unset_command": "it unsets a variable",
    "function_definition": "it defines a function",
    "heredoc_redirect": "it feeds a text to a command (<<)",
    "herestring_redirect": "it feeds a text to a command (<<<)",
    "for_statement": "it is a loop",
    "c_style_for_statement": "it is a loop",
    "while_statement": "it is a loop",
    "if_statement": "it branches",
    "case_statement": "it branches",
    "compound_statement": "it groups commands",
    "test_command": "it tests a condition",
    "ERROR": "it cannot be read as a shell command",
}
UNREADABLE = ODD["ERROR"]
BACKGROUND = "it runs something in the background (&)"
LINE_JOIN = "it joins lines with a backslash, which shells and readers see differently"
NEWLINE = "it is several lines of commands"
HIDDEN = "its parts are not what they look like"
DYNAMIC = "a part of it is only known when it runs"
NAMELESS = "which program it runs is not plain"
TURNED = "it changes the folder and takes success for failure (!)"
TOO_DEEP = "it is nested too deeply"
UNCERTAIN = frozenset({UNREADABLE, HIDDEN, TOO_DEEP, LINE_JOIN})
"""With one of these, the segments that were found may not be all."""
