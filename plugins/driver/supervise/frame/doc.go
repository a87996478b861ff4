// Package frame is the protocol between the agent and a task's supervising process, as bytes.
//
// One frame is a kind byte, the length of the body in four bytes, and the body. The agent sends one spec, then
// commands; the supervising process replies with one report that the task runs or that it could not be started, and at
// the end with one about its exit. An agent that connects later receives the running report first. The exit report is
// also the content of the exit file.
//
// The package is linked into the supervising process, whose memory counts once per task: it imports
// nothing but the language.
package frame
