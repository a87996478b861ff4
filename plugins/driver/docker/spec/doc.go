// Package spec turns a task and its config into what the engine needs to create a container. It asks the engine
// nothing.
//
// Paths inside the allocation, and sub paths of volumes, may have been written by workloads. They are opened without
// leaving the allocation (or the volume), and the open file is bound in a directory of the agent that no task reaches: the
// engine mounts what was checked, whatever happens to the path afterwards. The binds are removed when the container has
// started; [Sweep] removes those of an agent that was killed before.
//
// The engine gets no path /proc/<agent>/fd/<n>: the container's mounts are made in a mount namespace of its own, in which the
// kernel binds no mount of another one.
package spec
