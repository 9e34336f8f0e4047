"""Lanes: a git worktree on a branch of its own, with a chat in a tmux session that works there beside everything else."""
