// Package fingerprint finds out what the node is and has.
//
// [Run] asks the host once: each probe is a function in a file named after it and writes the attributes and
// resources that only it writes. A probe that fails is logged and leaves its part empty; it stops no other.
// Attributes whose name begins with "unique." do not count for the class of the node.
//
// [Drivers] follows the task drivers for as long as the agent runs. Its rules, learnt the hard way:
//
//   - after a channel closed, look at the context before opening another one;
//   - an open that fails at the start is retried like any other, and counts as the first report, so that
//     no caller waits for it;
//   - an error keeps a driver detected and makes it unhealthy: tasks on it are not torn away;
//   - a driver that has not reported yet is in no state, and is never called undetected;
//   - one mutex guards all that is known, and the callback runs without it.
package fingerprint
