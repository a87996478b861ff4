// Package isolate starts a task apart from the host: with a root directory, processes and rights of its own.
//
// It is part of the supervising program and uses package syscall, not package os. Three processes take part, all of them
// run that program:
//
//	supervising process ──► first process of the namespaces: ignores signals, ends with the supervising process
//	                  └──► a process that makes the root directory, drops its rights and becomes the task
//
// Both are children of the supervising process. So that process learns how the task exits, and when it kills the first
// process, the kernel kills all that the task has started. Without a process namespace of its own (Isolation.PID) there is
// no first process.
//
// # Invariants
//
// The host's root directory is out of reach before the task's program is executed. Every mount of the task ignores set-user-ID
// bits and, device nodes of the job excepted, devices; /dev has only harmless ones and is read-only. No process of the task
// gains rights by executing a file. Unmounts on the host reach the namespace; no mount of the namespace reaches the host.
package isolate
