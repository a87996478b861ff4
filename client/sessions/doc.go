// Package sessions runs commands inside tasks for callers whose calls may be lost, repeated or reordered.
//
//	       first exchange         the command ended
//	open ─────────────────► running ───────────────► ended ──► removed
//	  └──────────────────────── idle, or Stop ────────────────────┘
//
// Opening a session has no effect on the task, so a caller may repeat it; the first exchange starts the command, at most
// once in the life of the agent, and never after a restart of the agent, which forgets all sessions. Input, output and sizes
// of the terminal have positions: bytes that come twice are dropped, and output is kept until the caller confirms it.
//
// Invariants:
//   - A session that no call uses for [IdleMax] is removed, and its command is killed.
//   - A command waits with its output while [OutputMax] bytes are not confirmed; input beyond [InputMax] is not accepted.
//   - A session counts against the limits until its command has ended.
package sessions
