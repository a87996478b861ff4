// Package command runs commands inside running containers, by the exec calls of the engine.
//
// The engine has no call that ends a command. Run kills its processes on this host by their ids, when the kernel shows
// that they are in the container's cgroup; with an engine on another host the command runs until it ends by itself, or
// with the container. The same holds when the agent is killed
// or the engine is started again meanwhile.
package command
