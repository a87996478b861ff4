// Package periodic is the service that launches periodic jobs at their times.
//
// It is a loop of the leader with one clock: a heap of what comes next, kept in step with the jobs by the
// change feed. It holds nothing that state does not say: the next time of a job follows from its crons,
// its time zone, and the later of its last launch and its last change. A new leader therefore finds the
// times that nobody served, and launches once for all of them.
//
// A launch is a command of the service of jobs, which refuses a time that was served before; the instance is
// named after the time. Two leaders cannot launch twice for one time. Whether an instance may run beside
// another is decided there too.
//
// Local times that a change of the clocks skips are not launched; those that come twice are launched twice.
//
// This service writes nothing itself.
package periodic
