// Package supervise is the agent's side of the supervising process that runs one task: it writes the
// program to disk, starts it, finds it again after a restart of the agent, and learns how the task exited.
// The program itself is in nomad-supervise, the protocol in frame.
//
// The program is built into the directory bin, which is compiled into this package. A build without
// it (plain go build, go vet) works; Install then returns an error that names the remedy.
//
// Invariants: a supervising process is known by its boot, pid and start time together, never by the pid
// alone; the exit of a task is learnt from its report or its exit file, never guessed; nothing is synced to
// disk on the way to a running task, since a host that went down has no task to find again.
//
// Files of one task, besides its socket: <state>.lock is made and locked by the agent before the start, and held by
// the supervising process for its life. Its reserved space takes the exit, and it becomes <state>.exit by a rename: on
// a full disk that works where a new file does not. A process that cannot even do that stays and reports the exit to
// every agent that connects.
package supervise

//go:generate sh -c "CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/nomad-supervise ./nomad-supervise"
