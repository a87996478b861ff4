// Command nomad-supervise is the one process that stands between the agent and a task. It starts the task,
// keeps its output, ends what the task leaves behind and records how it exited, whether an agent is there
// or not.
//
// It is a program of its own because its memory counts once per task: it uses package syscall and the
// frame package only (no os, fmt or time), few goroutines, and allocates next to nothing after the start.
//
// The thread that started the task is the parent whose death kills it. No thread ends before the process: the
// runtime ends only those whose goroutine ended while locked to them, and none does. So a task never runs without
// its supervisor. When the task has mounts or a lease, the main goroutine is locked to the main thread, which
// is in the task's mount namespace while it makes it and while it forks the task.
// The second goroutine reaps: the process is a child subreaper, so every descendant of the task ends up
// below it, and "no child left" is the proof that the task's tree has ended. The third one moves the output of the task: a
// disk that hangs below the logs holds up neither an agent's orders nor the end of a lease.
//
// Commands inside the task are run by processes of their own, see runCommand.
//
// Started by the agent with the directory of Spec.State as working directory and one end of a socket pair as
// descriptor 3. Its files are <State>.sock (commands after an agent's restart) while it runs and
// <State>.exit (an exited report) after the end.
package main
