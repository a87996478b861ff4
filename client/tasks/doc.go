// Package tasks leads the tasks of one allocation through their lives.
//
//	             gate opens       driver started it        exit, policy: no restart
//	pending ───────────────► … ─────────────────► running ──────────────────────────► dead
//	    ▲                                            │ exit, policy: restart             ▲
//	    └──────────── restart delay ─────────────────┘                                   │
//	    └──── killed, or set up in vain ────────────────────────────────────────────────┘
//
// A [Group] holds all tasks of the allocation. [order] decides, as a pure function over what the tasks are doing, which
// gate opens and which task must end: prestart tasks first, then the main ones, poststart tasks next to them, poststop
// tasks after them; a leader's end and a sibling's failure end the others. [Tracker] decides, as a pure function too,
// whether and when a task is started again.
//
// A task's record (state, events, attempt, driver handle, restarts in the window) is written by its own goroutine only.
// The handle is durable before the task is shown as running, so a new agent process finds it again: [Group.Run] with
// restored records takes running tasks up instead of starting them. When the context of Run ends, tasks are left
// running and nothing is recorded as ended.
package tasks
