// Package spec turns a task and its config into what the engine needs to create a container. It asks the engine
// nothing.
//
// Paths inside the allocation, and sub paths of volumes, may have been written by workloads. They are opened without
// leaving the allocation (or the volume), and the engine gets the path of the open file, /proc/<agent>/fd/<n>: what is
// mounted is what was checked, whatever happens to the path afterwards. The files stay open until the container has
// started. The engine must therefore run in the PID and mount namespace of the agent.
package spec
