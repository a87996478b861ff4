// Package cni runs CNI plugins, which connect the network namespaces of allocations with networks of mode cni/<name>.
//
// A network is a configuration list <name> in one of the files of [Config].ConfigDir. What a plugin has to remove is recorded
// in a file before the plugin is called, with the configuration of that moment: networks of a killed agent, and those whose
// configuration was removed, are deleted by [Service.Delete] as others are. The file also contains the result, so that a
// restarted agent knows the addresses of running allocations.
//
// # Invariants
//
// Each call of a plugin has a bound in time; the plugin and the processes that it started are killed at its end. Add may be
// repeated: it returns what the record contains if the namespace is still the same, and otherwise deletes first.
package cni
