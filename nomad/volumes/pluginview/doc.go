// Package pluginview derives CSI plugins from the rows of nodes and jobs. Plugins are not stored: a counter
// would have to be kept in step with nodes, jobs and allocations by each of their commands.
package pluginview
