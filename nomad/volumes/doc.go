// Package volumes serves the requests on CSI volumes, their snapshots and claims, and on CSI plugins: it
// validates, writes down what is asked, waits for the outcome and shows what is known.
//
// It calls no driver. What a driver has to do for a request is written as an intent by the commands of
// package commands, and done by package reconciler on the leader; what follows from no intent (validation,
// lists of what is at the provider, unmounting at an operator's request) it asks of [Drivers].
//
// Plugins are never stored: package pluginview counts them from the nodes' fingerprints and from jobs
// whenever they are read.
//
// A caller of Create, Delete or an expansion waits for the driver's reply. The outcome of a call without a reply stays
// open: the row records that, and the leader carries on.
package volumes
