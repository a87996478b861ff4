// Package docker runs tasks as containers of a Docker engine, or of one with a compatible API.
//
// Its parts: docker/config reads both config blocks, docker/spec describes the container of a task, docker/image gets and
// removes images, docker/logs copies the output, docker/usage measures, docker/command runs commands in
// containers, docker/engine connects.
//
// # Containers
//
// The engine keeps the state of tasks. A container carries labels that name the attempt, the agent's directory and where
// the output goes: a handle is the id of the container, and an attempt whose start was not answered is found by its label.
// The name of a container is that of the task and of the allocation, so that the engine refuses a second one.
//
//	Start:  image ─► create (name is unique) ─► start ─► watched
//	Find:   running or exited ─► handle; created and not started ─► removed, and not found
//
// For each known task one goroutine waits for the end of the container and one copies its output. Both go on when the
// engine is back after it was away, and see an exit that happened meanwhile.
//
// # Leases of volumes
//
// Containers have no supervising process: while the agent is dead, nothing ends them at the end of a lease. The driver is
// no driver.LeaseKeeper, and docs/volumes.md describes what follows from that.
package docker
