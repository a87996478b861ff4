// Package driver is the contract between the node and what runs tasks: raw_exec, mock and later others.
//
// # The life of a task
//
//	            Start                    main process ends
//	(unknown) ────────► running ──────────────────────────► exited
//	    ▲                 ▲  │ Stop: signal, wait, kill tree    │
//	    │ Destroy         │  └──────────────────────────────────┤
//	    │         Recover │                                     │
//	    │ (other process) (handle kept by the node)             │
//	    └───────────────────────────────────────────────────────┘ Destroy
//
// A task is known to a driver by [Task].ID from a successful Start or Recover until Destroy. The id names one attempt:
// a restarted task gets a new id, so that late replies about the old attempt cannot be mistaken for news of the new
// one. Every method that gets an id the driver does not know returns an error of class fault.NotFound.
//
// Start returns when the main process of the task runs (its program was found and executed), together with
// a [Handle]. The node stores the handle before it does anything else. When Start fails nothing is left
// behind, and [Recoverable] reports whether trying again can help.
//
// Wait blocks until the main process has ended. It may be called concurrently, before and after the end, and returns
// the same result each time. A cancelled context ends the wait and not the task.
//
// Stop sends the signal to the main process, waits for its end, and after the timeout kills everything the
// task started. When it returns nil the task has exited. Stopping an exited task succeeds. When its
// context ends first, Stop returns and the escalation does not happen; a new call starts from the beginning.
//
// When the main process ends by itself the driver ends what else the task started: a task is its main
// process, and no child outlives it.
//
// Destroy forgets the task and removes what the driver kept about it; a task still running is killed
// first. Destroying an unknown task is not found, which callers that clean up ignore.
//
// # Restart of the agent
//
// Tasks outlive the agent. After a restart the node calls Recover with each stored handle, once, before any
// other method for that id. Recover returns nil when the task runs or when its exit is still known (Wait
// then returns at once), and fault.NotFound when the task no longer exists and nothing about its end can
// be learned. In the latter case the driver has removed its remains.
//
// # Health
//
// Fingerprint sends a first value at once, then one per change and at least one every [FingerprintPeriod]. The driver
// closes the channel when the context ends or when it cannot continue; the reader opens a new one.
//
// # Who writes what
//
// The driver writes the log files of the task (see client/logs for their names) and its own state
// directory. The node makes the task's directories before Start and removes them after Destroy.
package driver
