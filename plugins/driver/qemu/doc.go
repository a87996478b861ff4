// Package qemu runs virtual machines: each task is one process of an emulator of the node. The process is isolated as the
// tasks of plugins/driver/exec are, whose supervision and recovery it has: an image or an argument of a job reaches no file
// of the host that the node's operator does not permit. This package makes the command line, and asks virtual machines to
// shut down.
//
// The sockets of the monitor and of the guest agent are files in the task's directory, which is the root directory of
// the emulator.
package qemu
