// Package limits finds the controllers of cgroups that a host has, and defines what a task may use as values of the files of
// its cgroups.
//
// A host has cgroups of version 1, of version 2, or both: each controller is in one hierarchy of version 1, or in that of
// version 2. [Find] determines this when it runs. The package writes nothing for a task: the supervising process makes the
// cgroups of its task and removes them, so that none is left by an agent that ends in between.
package limits
