// Package suite is the contract of plugins/driver as tests. Every driver runs it over a Harness that defines how a
// task of that driver sleeps, exits, prints and so on; an empty config skips what a driver cannot do.
package suite
