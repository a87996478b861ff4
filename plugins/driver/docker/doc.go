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
// # Networks of allocations
//
// An engine joins no namespace at a path. For each task in the network of its allocation, another container of the same image
// runs the supervising program, which moves its process into the namespace of the allocation; the container of the task joins
// that of this process. The namespace belongs to the allocation, so a task that runs does not depend on the other container:
// without it, the engine only does not measure the task. Host name, hosts and resolvers are those of the joined container,
// hence each attempt has one of its own. It is removed with the attempt, and found by its label.
//
// # Leases of volumes
//
// A container with a lease has a guard: a supervising process of package rawexec, made after the container and before its
// start, which kills the processes of the container at the end of the lease, with or without the agent and the engine. It
// finds them by the id of the container in the names of their cgroups. Its own task does nothing. A guard is known by the
// id of its container and ends as its task is destroyed; what keeps the lease after that is the business of rawexec.
package docker
